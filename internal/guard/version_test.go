package guard_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
)

// TestOfAnotherBuild: who proves as an older or a newer build does is told so, and not
// that he proves nothing.
func TestOfAnotherBuild(t *testing.T) {
	t.Parallel()
	token := guard.FixedToken(guard.NewSecret([]byte("0123456789abcdef")))
	for _, proof := range []string{
		fmt.Sprintf("v1 %d %032x %064x", time.Now().UnixMilli(), 1, 1),
		fmt.Sprintf("j1 %d %032x %064x job", time.Now().UnixMilli(), 1, 1),
	} {
		if err := token.CheckJoin(proof, "job", "m", nil); !errors.Is(err, guard.ErrDenied) || !strings.Contains(err.Error(), "another build") {
			t.Errorf("proof %.10s: %v", proof, err)
		}
	}
	a, b := net.Pipe()
	_ = b.SetDeadline(time.Now().Add(patience))
	go func() {
		_, _ = a.Write(append([]byte("SKERRYG\x01"), make([]byte, 16)...))
		_ = a.Close()
	}()
	rw := buffered(t, b)
	err := guard.Dialogue{Token: token, Purpose: "p", Server: true}.Run(rw)
	if !errors.Is(err, guard.ErrDenied) || !strings.Contains(err.Error(), "another build") {
		t.Errorf("dialogue: %v", err)
	}
	_ = b.Close()
}
