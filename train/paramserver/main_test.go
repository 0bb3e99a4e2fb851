package paramserver_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/paramserver"
	"github.com/skerry-ft/skerry/train/spawn"
)

func TestMain(m *testing.M) {
	spawn.Register("stuck-client", stuckClient)
	spawn.Init()
	goleak.VerifyTestMain(m)
}

// stuckClient opens a session with the server of w.Args, and sums up what nobody else
// does, until it is killed.
func stuckClient(ctx context.Context, w spawn.Worker) error {
	c, err := paramserver.Dial(ctx, paramserver.ClientConfig{Address: string(w.Args), Backend: tcp.New(tcp.Options{})})
	if err != nil {
		return err
	}
	for {
		if err := c.AllReduce(ctx, tensor.New(tensor.Float32, 1<<20), tensor.Sum); err != nil {
			return err
		}
	}
}
