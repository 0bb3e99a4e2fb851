package wire

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
)

// How connections are kept under watch. A silent peer is noticed by beats and
// deadlines long before; these find the connections that nobody uses.
const (
	keepaliveEvery   = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
	keepaliveLeast   = 5 * time.Second // more frequent pings are refused
)

// ServerOptions returns the bounds and keepalive of every gRPC server of ours.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(Codec()),
		grpc.MaxRecvMsgSize(MaxRequestBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveEvery, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveLeast, PermitWithoutStream: true}),
	}
}

// RequestBytes bounds the request of a call that has one only.
func RequestBytes(method string) int {
	switch method {
	case skerrypb.Manager_Quorum_FullMethodName:
		return MaxReportBytes
	case torchftpb.LighthouseService_Quorum_FullMethodName:
		return MaxTorchftJoinBytes
	}
	return MaxUnaryBytes
}

// DialOptions returns the bounds and keepalive of every gRPC client of ours.
// Transport credentials are the caller's to add.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxRequestBytes),
			grpc.ForceCodecV2(Codec())),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveEvery, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
	}
}
