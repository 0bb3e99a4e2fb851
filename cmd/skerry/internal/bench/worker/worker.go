// Package worker starts the processes that a benchmark measures, and talks to them line by
// line.
package worker

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/skerry-ft/skerry/train/spawn"
)

// Lines are the standard input and output of a process that reads and writes
// JSON, one value a line. All processes that are measured do: ours, and the peers'
// small programs.
type Lines struct {
	In  io.WriteCloser
	Out *bufio.Scanner
}

// Tell writes one line.
func (l Lines) Tell(v any) error { return json.NewEncoder(l.In).Encode(v) }

// Next reads one line into v. It ends with the process.
func (l Lines) Next(v any) error {
	for {
		if !l.Out.Scan() {
			return fmt.Errorf("a process ended early: %w", cmp.Or(l.Out.Err(), io.ErrUnexpectedEOF))
		}
		// PyTorch's Gloo tells of its connections on standard output.
		if !bytes.HasPrefix(l.Out.Bytes(), []byte("[Gloo] ")) {
			break
		}
	}
	if err := json.Unmarshal(l.Out.Bytes(), v); err != nil {
		return fmt.Errorf("read %q: %w", l.Out.Text(), err)
	}
	return nil
}

// Process is a worker of ours, seen from outside.
type Process struct {
	*spawn.Process
	Lines

	pipes []io.Closer
}

// Start starts rank of n workers of that name.
func Start(name string, rank, n int, args any) (*Process, error) {
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe() // of the system: a line to a worker that has ended is an error
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	w, err := spawn.Start(spawn.Worker{Name: name, Rank: rank, WorldSize: n, Args: text},
		spawn.Options{Stdin: inR, Stdout: outW, Stderr: os.Stderr})
	err = errors.Join(err, inR.Close(), outW.Close()) // the worker has its own
	if err != nil {
		return nil, errors.Join(err, inW.Close(), outR.Close())
	}
	lines := Lines{In: inW, Out: bufio.NewScanner(outR)}
	return &Process{Process: w, Lines: lines, pipes: []io.Closer{inW, outR}}, nil
}

// End kills the worker and returns when it is gone.
func (p *Process) End() {
	p.Kill()
	for _, c := range p.pipes {
		_ = c.Close() // nothing is lost with them
	}
}
