// Package cli is what all commands of this module have in common at the command line.
package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/skerry-ft/skerry/cmd/internal/terminal"
)

// IsTerminal tells whether a person reads w.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	return terminal.Is(f)
}

// Plural is "1 member", "2 members".
func Plural[T int | int64](n T, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
