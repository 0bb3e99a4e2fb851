package trace

import (
	"errors"
	"fmt"
	"os"
)

// ReadFiles reads dumps in JSON. It returns those that it could read, and an
// error that names the others.
func ReadFiles(names []string) ([]Dump, error) {
	var dumps []Dump
	var errs []error
	for _, name := range names {
		d, err := readFile(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		dumps = append(dumps, d)
	}
	return dumps, errors.Join(errs...)
}

func readFile(name string) (Dump, error) {
	f, err := os.Open(name)
	if err != nil {
		return Dump{}, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return Read(f)
}
