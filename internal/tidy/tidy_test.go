package tidy

import (
	"os"
	"testing"
)

// The repository keeps its own rules.
func TestRepository(t *testing.T) {
	ratchet, err := os.ReadFile("ratchet.txt")
	if err != nil {
		t.Fatal(err)
	}
	problems, err := Check(os.DirFS("../.."), string(ratchet))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}
