package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
	"github.com/skerry-ft/skerry/internal/paralleltest"
)

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: they
// wait for deadlines rather than compute.
const testsAtOnce = 6

func TestMain(m *testing.M) {
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}

func TestHTTPConforms(t *testing.T) {
	t.Parallel()
	ckpttest.Run(t, func(t *testing.T, n int) []checkpoint.Transport {
		out := make([]checkpoint.Transport, n)
		for i := range out {
			out[i] = ckpttest.Running(t, checkpoint.HTTPConfig{ChunkBytes: 64 << 10, Timeout: 30 * time.Second, Token: []byte("secret")})
		}
		return out
	})
}

// TestRunAgain: a Run after the one that ended ends at once, as that of a server does.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	tr, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(tr.Run(ctx), tr.Run(ctx)) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the second Run does not end")
	}
}
