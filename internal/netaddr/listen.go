package netaddr

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Listen listens for TCP at address, "host:port". That another process has the
// address is an error that says so, and what to do, in one line.
func Listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("address %s is in use: stop what listens there, or choose another port", address)
	}
	return listener, err
}
