package store_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/store"
)

// workerEnv makes this binary a process of the file store's tests: its value
// is "role path".
const workerEnv = "SKERRY_STORE_TEST_WORKER"

func TestMain(m *testing.M) {
	if role, path, ok := strings.Cut(os.Getenv(workerEnv), " "); ok {
		if err := worker(role, path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const workers, workerAdds = 4, 100

// worker is one process on a file: "count" adds and leaves in good order,
// "writer" writes without end, to be killed.
func worker(role, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if role == "writer" {
		s, err := store.NewFile(path, 0)
		for i := 0; err == nil; i++ {
			err = s.Set(ctx, "k"+strconv.Itoa(i%10), make([]byte, 100<<10))
			if i == 20 {
				fmt.Println("writing")
			}
		}
		return err
	}
	s, err := store.NewFile(path, workers)
	if err != nil {
		return err
	}
	for range workerAdds {
		if _, err := s.Add(ctx, "n", 1); err != nil {
			return err
		}
	}
	if _, err := s.Add(ctx, "finished", 1); err != nil {
		return err
	}
	for done := int64(0); done < workers; {
		if done, err = s.Add(ctx, "finished", 0); err != nil {
			return err
		}
	}
	got, err := s.Get(ctx, "n")
	if want := strconv.Itoa(workers * workerAdds); err == nil && string(got) != want {
		err = fmt.Errorf("got %s adds, want %s", got, want)
	}
	if err != nil {
		return err
	}
	return s.Close()
}
