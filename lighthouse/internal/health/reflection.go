package health

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
)

// RegisterReflection adds gRPC's reflection of what serves, for clients of both its
// versions.
func RegisterReflection(to grpc.ServiceRegistrar, serves reflection.ServiceInfoProvider) {
	o := reflection.ServerOptions{Services: serves}
	reflectionpb.RegisterServerReflectionServer(to, reflection.NewServerV1(o))
	reflectionalphapb.RegisterServerReflectionServer(to, reflection.NewServer(o))
}
