package chaos

import (
	"errors"
	"fmt"
	"os"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

// tryDrawing finds out whether the file of the drawing can be written, so that a run of hours does
// not end with that it cannot. A file that is there stays as it is.
func (c *config) tryDrawing() error {
	if c.svg == "" {
		return nil
	}
	_, before := os.Stat(c.svg)
	f, err := os.OpenFile(c.svg, os.O_WRONLY|os.O_CREATE, 0o644) //nolint:gosec // it is for everyone
	if err == nil {
		err = f.Close()
		if errors.Is(before, os.ErrNotExist) {
			err = errors.Join(err, os.Remove(c.svg))
		}
	}
	if err != nil {
		return cli.Usage(fmt.Errorf("--svg = %s, want a file that can be written, or none: %w", c.svg, err))
	}
	return nil
}
