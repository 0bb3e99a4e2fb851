package testkit

import (
	"errors"
	"testing"
	"time"
)

// Patience bounds every wait of this package; reaching it is a failure of the test.
const Patience = 90 * time.Second

// lookEvery is the time between two looks at a condition, lookCloselyEvery at one in this
// process that may be brief, tryEvery between two tries of what may be a call to another
// process.
const (
	lookEvery        = 5 * time.Millisecond
	lookCloselyEvery = time.Millisecond
	tryEvery         = 20 * time.Millisecond
)

var errNotYet = errors.New("it is not so")

// Eventually waits until ok returns true. After Patience it ends the test, which must
// be the caller's goroutine's. What names the condition in the failure.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	await(t, what, Patience, lookEvery, orNotYet(ok))
}

// EventuallyWithin is Eventually with less patience, and looks more often. It is for tests
// whose code under test has timeouts shorter than Patience: those shall not bring about
// what is waited for.
func EventuallyWithin(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	await(t, what, within, lookCloselyEvery, orNotYet(ok))
}

// EventuallyNil waits until try returns nil. After Patience it ends the test with
// try's last error.
func EventuallyNil(t testing.TB, what string, try func() error) {
	t.Helper()
	await(t, what, Patience, tryEvery, try)
}

func orNotYet(ok func() bool) func() error {
	return func() error {
		if ok() {
			return nil
		}
		return errNotYet
	}
}

func await(t testing.TB, what string, within, every time.Duration, try func() error) {
	t.Helper()
	over := time.NewTimer(within)
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
			t.Fatalf("not within %v: %s: %v", within, what, err)
		}
	}
}
