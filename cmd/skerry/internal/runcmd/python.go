package runcmd

import (
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

// pythonFlags say, in torchrun's words, whether a command is Python's.
type pythonFlags struct {
	module   bool
	noPython bool
}

func (p *pythonFlags) add(f *pflag.FlagSet) {
	f.BoolVarP(&p.module, "module", "m", false, "COMMAND is a module of Python: python -m COMMAND")
	f.BoolVar(&p.noPython, "no-python", false, "run COMMAND as it is, though its name ends in .py")
}

// command is what is run: args, or the Python program that they name. Errors: usage errors.
func (p *pythonFlags) command(args []string) ([]string, error) {
	script := strings.HasSuffix(args[0], ".py")
	switch {
	case p.module && p.noPython:
		return nil, cli.Usagef("--module with --no-python: want one of them")
	case p.noPython || !p.module && !script:
		return args, nil
	}
	python := ""
	for _, name := range []string{"python", "python3"} {
		if _, err := exec.LookPath(name); err == nil {
			python = name
			break
		}
	}
	if python == "" {
		return nil, cli.Usagef("COMMAND = %q is Python's, and there is neither python nor python3 in PATH: want one of them, or the whole command behind --no-python", args[0])
	}
	if p.module {
		return slices.Concat([]string{python, "-m"}, args), nil
	}
	return slices.Concat([]string{python}, args), nil
}
