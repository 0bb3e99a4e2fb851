package bench

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/skerry-ft/skerry/train/spawn"
)

// jsonLines are the standard input and output of a process that reads and writes
// JSON, one value a line. All processes that are measured do: ours, and the peers'
// small programs.
type jsonLines struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

// tell writes one line.
func (l jsonLines) tell(v any) error { return json.NewEncoder(l.in).Encode(v) }

// next reads one line into v. It ends with the process.
func (l jsonLines) next(v any) error {
	if !l.out.Scan() {
		return fmt.Errorf("a process ended early: %w", cmp.Or(l.out.Err(), io.ErrUnexpectedEOF))
	}
	if err := json.Unmarshal(l.out.Bytes(), v); err != nil {
		return fmt.Errorf("read %q: %w", l.out.Text(), err)
	}
	return nil
}

// process is a worker of ours, seen from outside.
type process struct {
	*spawn.Process
	jsonLines

	pipes []io.Closer
}

// startProcess starts rank of n workers of that name.
func startProcess(name string, rank, n int, args any) (*process, error) {
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
	worker, err := spawn.Start(spawn.Worker{Name: name, Rank: rank, WorldSize: n, Args: text},
		spawn.Options{Stdin: inR, Stdout: outW, Stderr: os.Stderr})
	err = errors.Join(err, inR.Close(), outW.Close()) // the worker has its own
	if err != nil {
		return nil, errors.Join(err, inW.Close(), outR.Close())
	}
	lines := jsonLines{in: inW, out: bufio.NewScanner(outR)}
	return &process{Process: worker, jsonLines: lines, pipes: []io.Closer{inW, outR}}, nil
}

// end kills the worker and returns when it is gone.
func (p *process) end() {
	p.Kill()
	for _, c := range p.pipes {
		_ = c.Close() // nothing is lost with them
	}
}
