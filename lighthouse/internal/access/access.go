// Package access says of each call of a lighthouse's port what it is: whether it reads, joins
// or changes, whose it is to make, and which job it names.
package access

import (
	"strings"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
)

// Probes is the call of gRPC's health service that probes make. It needs nothing, as /healthz
// does: what asks has neither a certificate nor a token. Watch, whose stream lasts, needs what
// any call does: strangers would hold streams without end.
func Probes(method string) bool { return method == healthpb.Health_Check_FullMethodName }

// describes are the calls of gRPC's reflection, where that is served.
func describes(method string) bool {
	return ServiceOf(method) == reflectionpb.ServerReflection_ServiceDesc.ServiceName ||
		ServiceOf(method) == reflectionalphapb.ServerReflection_ServiceDesc.ServiceName
}

// Reads are the calls that need no token: they change nothing. A method that is
// neither here nor in Joins needs the token of an operator, and so does a new one.
func Reads(method string) bool {
	switch method {
	case skerrypb.Lighthouse_Info_FullMethodName,
		skerrypb.Lighthouse_History_FullMethodName,
		skerrypb.Lighthouse_Jobs_FullMethodName,
		skerrypb.Cluster_Members_FullMethodName:
		return true
	}
	return describes(method)
}

// Joins are the calls of replicas and their launchers. They need the token, unless Config.OpenJoins.
func Joins(method string) bool {
	return method == skerrypb.Lighthouse_Session_FullMethodName || JoinsTorchft(method) || Launches(method)
}

// Launches is the call of launchers, which says that they are there, and is answered late.
func Launches(method string) bool { return method == skerrypb.Lighthouse_Wanted_FullMethodName }

// JoinsTorchft are those of torchft's.
func JoinsTorchft(method string) bool {
	return method == torchftpb.LighthouseService_Quorum_FullMethodName ||
		method == torchftpb.LighthouseService_Heartbeat_FullMethodName
}

// RolesOf says which roles may make a call. What a replica may say, a lighthouse
// passes on; what is an operator's, too.
func RolesOf(method string) []guard.Role {
	switch {
	case method == skerrypb.Cluster_Introduce_FullMethodName:
		return []guard.Role{guard.Lighthouse}
	case Joins(method) && !Launches(method):
		return []guard.Role{guard.Replica, guard.Lighthouse}
	case Reads(method), Launches(method):
		return []guard.Role{guard.Replica, guard.Operator, guard.Lighthouse}
	}
	return []guard.Role{guard.Operator, guard.Lighthouse}
}

// JobOf is the job that a request names; empty: it names none.
func JobOf(req any) string {
	r, ok := req.(interface{ GetJob() string })
	switch {
	case !ok:
		return ""
	case r.GetJob() == "":
		return wire.DefaultJob
	}
	return r.GetJob()
}

// IsCluster says whether a method is about the servers.
func IsCluster(method string) bool {
	return ServiceOf(method) == skerrypb.Cluster_ServiceDesc.ServiceName
}

// IsTorchft says whether a method is one of torchft's LighthouseService.
func IsTorchft(method string) bool {
	return ServiceOf(method) == torchftpb.LighthouseService_ServiceDesc.ServiceName
}

// ServiceOf is the service of a method.
func ServiceOf(method string) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return service
}
