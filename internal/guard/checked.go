package guard

import (
	"context"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/logkey"
)

// Checked are the options of a server whose every call is checked before its handler
// sees it; the request of a stream is nil. The context that check returns is the
// handler's in a unary call; that of a stream stays.
func Checked(check func(ctx context.Context, method string, req any) (context.Context, error)) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(
			ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
		) (any, error) {
			ctx, err := check(ctx, info.FullMethod, req)
			if err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(
			srv any, st grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
		) error {
			if _, err := check(st.Context(), info.FullMethod, nil); err != nil {
				return err
			}
			return next(srv, st)
		}),
	}
}

// Denied logs why a call is denied, and makes the answer; nil for nil.
func Denied(ctx context.Context, log zerolog.Logger, method string, err error) error {
	if err == nil {
		return nil
	}
	log.Warn().Err(err).Str("method", Shown(method)).Str(logkey.Peer, RemoteOf(ctx)).Msg("call denied")
	return status.Error(codes.Unauthenticated, err.Error())
}
