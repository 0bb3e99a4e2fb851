package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
)

// machines are the CPUs of which there are images.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// static refuses a program that wants a loader: the images have none.
func static(program []byte) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return errors.New("wants a loader, and the image has none; build it with CGO_ENABLED=0, the trainer with -tags skerry_static")
	}
	return nil
}

// runsOn refuses a program of another CPU than its folder is named for.
func runsOn(program []byte, cpu string) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	if want := machines[cpu]; f.Machine != want {
		return fmt.Errorf("is of %v, want %v", f.Machine, want)
	}
	return nil
}
