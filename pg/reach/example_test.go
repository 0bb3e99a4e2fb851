package reach_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/pg/reach"
)

// A host that refuses is within reach; one that gives no answer is not.
func ExampleDial() {
	refuses := func(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	silent := func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx := context.Background()
	_, err := reach.Dial(ctx, time.Minute, refuses)
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, reach.ErrUnreachable))
	_, err = reach.Dial(ctx, 10*time.Millisecond, silent)
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, reach.ErrUnreachable))
	// Output:
	// true false
	// false true
}
