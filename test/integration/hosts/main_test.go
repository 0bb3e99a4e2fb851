package hosts

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// envRank makes this test binary a rank of a world; its value is the world's token.
const envRank = "SKERRY_HOSTS_RANK"

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: their
// programs wait for the network and for steps rather than compute.
const testsAtOnce = 6

func TestMain(m *testing.M) {
	if token, ok := os.LookupEnv(envRank); ok {
		if err := rank(token); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}

// rank meets the others as the environment says, and adds up the ranks.
func rank(token string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience/2)
	defer cancel()
	if err := tcp.Register(); err != nil {
		return err
	}
	began := time.Now()
	w, err := dist.Init(ctx, dist.InitConfig{Backend: "tcp", Token: []byte(token)})
	if err != nil {
		return err
	}
	x := []int64{int64(w.Rank()) + 1}
	if err := w.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil {
		return err
	}
	fmt.Printf("rank %d of %d: sum %d after %v\n", w.Rank(), w.Size(), x[0], time.Since(began).Round(time.Millisecond))
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	return w.Destroy()
}
