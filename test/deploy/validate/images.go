package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/docker/go-connections/nat"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// containerFile parses a Dockerfile into its instructions as docker build and podman build do.
// What BuildKit only warns of is an error here.
func containerFile(text []byte, _ string) error {
	result, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return err
	}
	var all error
	for _, w := range result.Warnings {
		all = errors.Join(all, errors.New(w.Short))
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, what string, at []parser.Range) {
		line := 0
		if len(at) > 0 {
			line = at[0].Start.Line
		}
		all = errors.Join(all, fmt.Errorf("line %d: %s: %s", line, rule, what))
	}})
	stages, _, err := instructions.Parse(result.AST, lint)
	if err != nil {
		return errors.Join(all, err)
	}
	for i := range stages {
		for _, c := range stages[i].Commands {
			all = errors.Join(all, copiesFrom(stages, i, c))
			if e, ok := c.(*instructions.ExposeCommand); ok {
				_, _, err := nat.ParsePortSpecs(e.Ports)
				all = errors.Join(all, err)
			}
		}
	}
	return all
}

// copiesFrom wants COPY --from to name a stage before this one: an image of that name would be
// fetched else.
func copiesFrom(stages []instructions.Stage, at int, c instructions.Command) error {
	copies, ok := c.(*instructions.CopyCommand)
	if !ok || copies.From == "" {
		return nil
	}
	if from, found := instructions.HasStage(stages, copies.From); !found || from >= at {
		return fmt.Errorf("COPY --from=%s: no stage before it is called that", copies.From)
	}
	return nil
}
