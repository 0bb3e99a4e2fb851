// Package env reads environment variables that configure a manager, each with an error
// that names the variable, its value and what is wanted.
package env

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/launch/spare"
	"github.com/skerry-ft/skerry/manager/internal/session"
)

// Place waits, in a spare of skerry run, until the variables of its place are there: without a
// limit but the launcher's own end. Errors: those of [spare.Wait].
func Place() error { return spare.Wait(context.Background()) }

// Duration reads a time above 0, as 90s or 2m, into to if that is still zero.
func Duration(name string, to *time.Duration) error {
	text := os.Getenv(name)
	if text == "" || *to != 0 {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("%s = %q, want a time above 0, as 90s or 2m", name, text)
	}
	*to = d
	return nil
}

// Listen reads an address to listen at; to a host without a port it adds any free one.
func Listen(name string) string {
	text := os.Getenv(name)
	if _, _, err := net.SplitHostPort(text); err == nil || text == "" {
		return text
	}
	return net.JoinHostPort(strings.Trim(text, "[]"), "0")
}

// Servers splits the first of the named variables that is not empty. One that
// names no server all the same is an error: what it was to say is lost.
func Servers(names ...string) ([]string, error) {
	for _, name := range names {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		list := session.Addresses([]string{text})
		if len(list) == 0 {
			return nil, fmt.Errorf("%s = %q, want the address of at least one lighthouse server, host:port", name, text)
		}
		return list, nil
	}
	return nil, nil
}

// Int reads a number, 0 or more, into to; unset, it leaves to as it is.
func Int(name string, to *int) error {
	text := os.Getenv(name)
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%s = %q, want a number >= 0", name, text)
	}
	*to = n
	return nil
}

// Signed reads a number of any sign into to if that is still zero.
func Signed(name string, to *int) error {
	text := os.Getenv(name)
	if text == "" || *to != 0 {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%s = %q, want a number", name, text)
	}
	*to = n
	return nil
}

// Bool reads true or false into to if that is still false.
func Bool(name string, to *bool) error {
	text := os.Getenv(name)
	if text == "" || *to {
		return nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("%s = %q, want true or false", name, text)
	}
	*to = b
	return nil
}

// Word reads one of words, as its index, into to if that is still zero.
func Word(name string, words []string, to *int) error {
	text := os.Getenv(name)
	if text == "" || *to != 0 {
		return nil
	}
	i := slices.Index(words, text)
	if i < 0 {
		return fmt.Errorf("%s = %q, want one of %s", name, text, strings.Join(words, ", "))
	}
	*to = i
	return nil
}
