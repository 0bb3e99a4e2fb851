// Command supply says what is linked into the binaries besides this module: as
// NOTICE, the licences that their redistribution asks for, and as an SBOM in
// CycloneDX 1.5, for scanners.
//
//	go run ./internal/supply notice > NOTICE
//	go run ./internal/supply sbom > sbom.cdx.json
//
// It asks the go command for the modules of the packages that the binaries are
// made of, and reads their licences from the module cache. It fetches nothing that a
// build would not fetch, and its output is the same on every machine.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

//go:generate sh -c "go run . notice > ../../NOTICE.new && mv ../../NOTICE.new ../../NOTICE"

// binaries are the packages that are shipped.
var binaries = []string{"cmd/lighthouse", "cmd/skerry", "examples/digits/trainer"}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "supply: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	var write func(io.Writer, supply) error
	switch {
	case len(args) == 1 && args[0] == "notice":
		write = writeNotice
	case len(args) == 1 && args[0] == "sbom":
		write = writeSBOM
	default:
		return fmt.Errorf("arguments %q, want notice or sbom", args)
	}
	s, err := linked(ctx)
	if err != nil {
		return err
	}
	return write(w, s)
}
