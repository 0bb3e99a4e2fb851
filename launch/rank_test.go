package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// A command that is not there never can be run; what the host lacks for the moment may be there
// later.
func TestPermanent(t *testing.T) {
	t.Parallel()
	for _, err := range []error{syscall.ENOENT, syscall.EACCES, syscall.ENOEXEC, syscall.ENOTDIR, exec.ErrNotFound, os.ErrPermission} {
		if !permanent(fmt.Errorf("start: %w", &os.PathError{Op: "fork/exec", Path: "x", Err: err})) {
			t.Errorf("%v may pass", err)
		}
	}
	for _, err := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY, syscall.EIO, errors.New("other")} {
		if permanent(fmt.Errorf("start: %w", &os.PathError{Op: "fork/exec", Path: "x", Err: err})) {
			t.Errorf("%v is for ever", err)
		}
	}
}

// When all ranks have ended there is none that is held.
func TestHeld(t *testing.T) {
	t.Parallel()
	if one := new(attempt).held(); one != nil {
		t.Errorf("%+v", one)
	}
}
