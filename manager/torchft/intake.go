package torchft

import (
	"net"
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

// port is how the RPC server of a listener takes in calls: a message's length is known
// and bounded before it is read, and connections that flood are cut.
type port struct {
	listener net.Listener
	intake   *guard.Intake
	creds    credentials.TransportCredentials
}

// bounded puts bounds on what comes over ln.
func bounded(ln net.Listener, creds credentials.TransportCredentials, log zerolog.Logger) port {
	log, _ = guard.Sampled(log)
	return port{
		listener: guard.Limit(ln, guard.Limits{
			MaxConns: maxConns, MaxPerHost: maxConnsPerHost, WriteTimeout: writeTimeout,
			Refused: func(remote net.Addr, err error) {
				log.Debug().Err(err).Stringer(logkey.Peer, remote).Msg("connection refused")
			},
		}),
		intake: guard.NewIntake(guard.IntakeConfig{
			MaxBytes: wire.RequestBytes, Timeout: intakeTimeout,
			Cut: func(remote net.Addr, err error) {
				log.Warn().Err(err).Stringer(logkey.Peer, remote).Msg("connection cut")
			},
		}),
		creds: creds,
	}
}

// server makes the RPC server; its services are registered with the registrar.
func (p port) server(more ...grpc.ServerOption) (*grpc.Server, grpc.ServiceRegistrar) {
	options := append(wire.ServerOptions(), grpc.WaitForHandlers(true), grpc.ConnectionTimeout(greetTimeout))
	options = append(append(options, more...), p.intake.ServerOptions(p.creds)...)
	s := grpc.NewServer(options...)
	return s, p.intake.Registrar(s)
}
