// Package health tells by gRPC's health service (grpc.health.v1) whether a lighthouse server
// can do its work, as probes and load balancers ask, and which calls it has (reflection).
package health

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// Health is the service. Its methods are safe for concurrent use.
type Health struct {
	server   *health.Server
	services []string
}

// New makes one for the server as a whole, and for services by their names. Until Watch
// says otherwise they are not serving.
func New(services ...string) *Health {
	h := &Health{server: health.NewServer(), services: append([]string{""}, services...)}
	h.set(false)
	return h
}

// Register adds the service to a server.
func (h *Health) Register(to grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(to, h.server) }

// Watch keeps the answers up to date: healthy says whether the server can do its work, and
// returns channels of which one is closed when that may have changed. It ends with ctx,
// and the services are not serving from then on.
func (h *Health) Watch(ctx context.Context, healthy func() (ok bool, changed [2]<-chan struct{})) {
	defer h.server.Shutdown()
	for {
		ok, changed := healthy()
		h.set(ok)
		select {
		case <-changed[0]:
		case <-changed[1]:
		case <-ctx.Done():
			return
		}
	}
}

func (h *Health) set(ok bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if ok {
		status = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range h.services {
		h.server.SetServingStatus(name, status)
	}
}
