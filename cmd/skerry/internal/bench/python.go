package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/python"
)

// pythonModule prints what it measured as lines of JSON.
const pythonModule = "skerry.bench"

// maxPythonLine bounds one of these: some thousand samples of 20 digits.
const maxPythonLine = 4 << 20

// runPython measures torch.distributed over the Python package: all-reduces, steps of DDP
// and FSDP2, deaths.
func runPython(ctx context.Context, o Options, emit emitFunc) error {
	if err := python.Check(ctx, pythonModule); err != nil {
		o.note("not measured: python: %v", err)
		return nil
	}
	for _, n := range o.worlds(2, 4) {
		for _, what := range []string{"allreduce", "train"} {
			if err := runModule(ctx, emit, o.pythonArgs(what, n)); err != nil {
				return err
			}
		}
	}
	return runModule(ctx, emit, o.pythonArgs("kills", 3))
}

// pythonArgs are those of the module. It takes an all-reduce of 0 bytes for a barrier.
func (o Options) pythonArgs(what string, n int) []string {
	args := []string{what, "--ranks", strconv.Itoa(n), "--rounds", strconv.Itoa(cmp.Or(o.Samples, 10))}
	var sizes []string
	for _, bytes := range o.Bytes {
		sizes = append(sizes, strconv.FormatInt(bytes, 10))
	}
	if sizes != nil {
		args = append(args, "--bytes", strings.Join(sizes, ","))
	}
	if o.Peers {
		args = append(args, "--gloo")
	}
	return args
}

// runModule runs the module to its end, and emits its rows as they come.
func runModule(ctx context.Context, emit emitFunc, args []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := python.Command(ctx, pythonModule, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	bad := emitLines(out, emit)
	if bad != nil {
		cancel()
	}
	if err := errors.Join(bad, cmd.Wait()); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, said.Bytes()[max(said.Len()-2000, 0):])
	}
	return nil
}

// emitLines emits the rows among what the module and its libraries print.
func emitLines(r io.Reader, emit emitFunc) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxPythonLine)
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte("{")) {
			continue // Gloo says when it is connected
		}
		row, err := pythonRow(lines.Bytes())
		if err != nil {
			return fmt.Errorf("row %.200q: %w", lines.Text(), err)
		}
		emit(row)
	}
	return lines.Err()
}

func pythonRow(line []byte) (Row, error) {
	var fixed struct {
		Impl string    `json:"impl"`
		Took []float64 `json:"took_ms"`
	}
	params := Params{}
	if err := errors.Join(json.Unmarshal(line, &fixed), json.Unmarshal(line, &params)); err != nil {
		return Row{}, err
	}
	if fixed.Impl == "" || len(fixed.Took) == 0 {
		return Row{}, errors.New("no impl or no samples")
	}
	delete(params, "impl")
	delete(params, "took_ms")
	c := Contest{Bench: "python", Unit: "ms"}
	return c.row(fixed.Impl, params, fixed.Took), nil
}
