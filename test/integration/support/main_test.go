package support

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/tcp"
)

func TestMain(m *testing.M) {
	if err := errors.Join(tcp.Register(), baby.Register(tcp.Name)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // of the children
	baby.Init()                                                   // does not return in a child
	goleak.VerifyTestMain(m)
}
