package spare

import (
	"context"
	"fmt"
	"net"
	"os"
)

// Variable has the path of the socket at which a rank of a spare is told its place.
const Variable = "SKERRY_SPARE"

// Wait returns at once in a process that is no spare. In a spare it blocks until the launcher gives
// it a place, which is in the environment then: REPLICA_GROUP_ID, NUM_REPLICA_GROUPS, the lighthouse.
// Errors: ErrNotNeeded; that the launcher is gone; the cause of ctx's end.
func Wait(ctx context.Context) error {
	path := os.Getenv(Variable)
	if path == "" {
		return nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("spare: %s = %q, want the socket of the skerry run that has started this process, and that still runs: %w", Variable, path, err)
	}
	defer conn.Close() //nolint:errcheck // it was read
	stop := context.AfterFunc(ctx, func() {
		_ = conn.Close() // by which read ends
	})
	defer stop()
	o, err := read(conn)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("spare: no place was told at %s = %q: %w", Variable, path, err)
	case o.Over:
		return ErrNotNeeded
	}
	for name, value := range o.Env {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("spare: set %s to %q: %w", name, value, err)
		}
	}
	if _, err := conn.Write([]byte("\n")); err != nil {
		return fmt.Errorf("spare: tell the launcher that the place is taken: %w", err)
	}
	return os.Unsetenv(Variable)
}
