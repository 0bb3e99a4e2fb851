package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/skerry-ft/skerry/train/spawn"
)

// TestMain has registered "echo" and "fail" and called Init, as a main does in
// its first lines.
func Example() {
	ctx := context.Background()
	err := spawn.Run(ctx, 1, "echo", spawn.Options{Args: []byte("hello"), Stdout: os.Stdout})
	fmt.Println(err)

	err = spawn.Run(ctx, 2, "fail", spawn.Options{})
	failed, _ := errors.AsType[*spawn.ExitError](err)
	fmt.Println(failed.Rank, failed.Code, failed.Stderr)
	// Output:
	// 0/1 hello
	// <nil>
	// 1 1 fail rank 1: rank one had enough
}
