package testkit

import (
	"errors"
	"testing"
	"time"
)

// Patience bounds every wait of this package; reaching it is a failure of the test.
const Patience = 90 * time.Second

// lookEvery is the time between two looks at a condition, tryEvery between two tries of
// what may be a call to another process.
const (
	lookEvery = 5 * time.Millisecond
	tryEvery  = 20 * time.Millisecond
)

var errNotYet = errors.New("it is not so")

// Eventually waits until ok returns true. After Patience it ends the test, which must
// be the caller's goroutine's. What names the condition in the failure.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	await(t, what, lookEvery, func() error {
		if ok() {
			return nil
		}
		return errNotYet
	})
}

// EventuallyNil waits until try returns nil. After Patience it ends the test with
// try's last error.
func EventuallyNil(t testing.TB, what string, try func() error) {
	t.Helper()
	await(t, what, tryEvery, try)
}

func await(t testing.TB, what string, every time.Duration, try func() error) {
	t.Helper()
	over := time.NewTimer(Patience)
	defer over.Stop()
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-look.C:
		case <-over.C:
			t.Fatalf("not within %v: %s: %v", Patience, what, err)
		}
	}
}
