package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Launcher is what can be scaled: [launch.Launcher].
type Launcher interface {
	Scale(ctx context.Context, replicas int) error
}

// wish is the body of a PUT.
type wish struct {
	Replicas int `json:"replicas"`
}

// Bounds of a call: a user's own programs alone come this far.
const (
	maxBytes = 1 << 10
	patience = 10 * time.Second
)

// Server hears what is wanted of one job. Listen makes it; Close ends it.
type Server struct {
	http *http.Server
	done chan struct{}
}

// Listen hears what is wanted of a job until Close. Errors: another launcher of the job has its
// socket; those of the system.
func Listen(job string, l Launcher) (*Server, error) {
	dir, err := folder(true)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, socket(job))
	if conn, err := net.DialTimeout("unix", path, patience); err == nil {
		return nil, errors.Join(fmt.Errorf("another skerry run of job %q listens at %s", job, path), conn.Close())
	}
	// Of one that is no more.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s := &Server{done: make(chan struct{}), http: &http.Server{
		Handler: handler(job, l), ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience, MaxHeaderBytes: maxBytes,
	}}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(ln) // until Close
	}()
	return s, nil
}

// Close ends it, and takes the socket away.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}

func handler(job string, l Launcher) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"job": job}) // else it has gone
	})
	mux.HandleFunc("PUT /{$}", func(w http.ResponseWriter, r *http.Request) {
		var want wish
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBytes)).Decode(&want); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := l.Scale(r.Context(), want.Replicas); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
