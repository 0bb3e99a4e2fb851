package torchft

import (
	"net"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
)

// What the clients of a port may take: none of them can prove who it is.
const (
	maxConns        = 4_096
	maxConnsPerHost = 1_024
	writeTimeout    = 30 * time.Second
	greetTimeout    = 10 * time.Second // TLS handshake and HTTP/2 preface

	// intakeTimeout bounds how long a request may take to come, and how long a
	// connection may be open without a call: a rank connects before it loads its model,
	// and connects again with its first call if that takes longer.
	intakeTimeout = time.Minute
)

// newRPC makes the RPC server of what comes over ln, with bounds on the connections.
// Its services are registered with the registrar: a message's length is known and
// bounded before it is read, and connections that flood are cut.
func newRPC(
	ln net.Listener, creds credentials.TransportCredentials, log zerolog.Logger, more ...grpc.ServerOption,
) (net.Listener, *grpc.Server, grpc.ServiceRegistrar) {
	log, _ = guard.Sampled(log)
	intake := guard.NewIntake(guard.IntakeConfig{
		MaxBytes: wire.RequestBytes, Timeout: intakeTimeout,
		Cut: func(remote net.Addr, err error) {
			log.Warn().Err(err).Stringer(logkey.Peer, remote).Msg("connection cut")
		},
	})
	options := append(wire.ServerOptions(), grpc.WaitForHandlers(true), grpc.ConnectionTimeout(greetTimeout))
	s := grpc.NewServer(slices.Concat(options, more, intake.ServerOptions(creds))...)
	return guard.Limit(ln, guard.Limits{
		MaxConns: maxConns, MaxPerHost: maxConnsPerHost, WriteTimeout: writeTimeout,
		Refused: func(remote net.Addr, err error) {
			log.Debug().Err(err).Stringer(logkey.Peer, remote).Msg("connection refused")
		},
	}), s, intake.Registrar(s)
}
