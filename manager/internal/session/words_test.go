package session

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A session that ends is told in words, and known by its code still.
func TestInWords(t *testing.T) {
	t.Parallel()
	broken := status.Error(codes.Unavailable, "error reading from server: EOF")
	got := inWords(broken)
	if got.Error() != "error reading from server: EOF" || status.Code(got) != codes.Unavailable || !errors.Is(got, broken) {
		t.Errorf("%q of code %v", got, status.Code(got))
	}
	if plain := errors.New("silent for 3s"); inWords(plain) != plain {
		t.Errorf("%v became %v", plain, inWords(plain))
	}
}
