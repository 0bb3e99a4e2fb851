package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// supply is what the binaries are made of.
type supply struct {
	main    string // this module's path
	modules []module
}

// module is one that is linked.
type module struct {
	Path     string
	Version  string
	licences []licence
}

// licence is a file of a module.
type licence struct {
	file string
	id   string // SPDX; "" for a NOTICE, which is none
	text string
}

// linked lists the modules of the binaries, by path, and Go's own library.
func linked(ctx context.Context) (supply, error) {
	args := []string{"list", "-deps", "-json=ImportPath,Standard,Module"}
	root, err := goOutput(ctx, "list", "-m", "-f", "{{.Path}}\n{{.Dir}}")
	if err != nil {
		return supply{}, err
	}
	main, dir, _ := strings.Cut(strings.TrimSpace(string(root)), "\n")
	for _, b := range binaries {
		args = append(args, main+"/"+b)
	}
	out, err := goOutput(ctx, args...)
	if err != nil {
		return supply{}, err
	}
	dirs := make(map[[2]string]string) // by path and version
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return supply{}, fmt.Errorf("read what go list says: %w", err)
		}
		if m := p.Module; m != nil && !m.Main {
			dirs[[2]string{m.Path, m.Version}] = m.Dir
		}
	}
	goroot, err := goOutput(ctx, "env", "GOROOT")
	if err != nil {
		return supply{}, err
	}
	s := supply{main: main}
	if _, err := os.Stat(filepath.Join(dir, "LICENSE")); err != nil {
		return supply{}, fmt.Errorf("find this module's own licence: %w", err)
	}
	dirs[[2]string{"std", ""}] = strings.TrimSpace(string(goroot))
	for id, dir := range dirs {
		m := module{Path: id[0], Version: id[1]}
		if m.licences, err = licencesIn(dir); err != nil {
			return supply{}, fmt.Errorf("%s %s: %w", m.Path, m.Version, err)
		}
		s.modules = append(s.modules, m)
	}
	slices.SortFunc(s.modules, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return s, nil
}

// goOutput runs the go command for the platform that the binaries are built for.
func goOutput(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return out, nil
}

// licencesIn reads the licences and notices at a module's root. A module without one
// cannot be redistributed.
func licencesIn(dir string) ([]licence, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []licence
	known := false
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		isNotice := strings.HasPrefix(name, "NOTICE")
		if !e.Type().IsRegular() || !isNotice && !strings.HasPrefix(name, "LICENSE") && !strings.HasPrefix(name, "LICENCE") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		l := licence{file: e.Name(), text: strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))}
		if !isNotice {
			if l.id = identify(l.text); l.id == "" {
				return nil, fmt.Errorf("%s is a licence that this program does not know", e.Name())
			}
			known = true
		}
		all = append(all, l)
	}
	if !known {
		return nil, fmt.Errorf("no licence is in %s", filepath.Base(dir))
	}
	return all, nil
}

// licences by what each alone says, in the order in which they are tried.
var identities = []struct{ id, says string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"MPL-2.0", "mozilla public license, version 2.0"},
	{"BSD-3-Clause", "neither the name"},
	{"BSD-2-Clause", "redistribution and use in source and binary forms"},
	{"MIT", "permission is hereby granted, free of charge, to any person"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software"},
}

// identify is the SPDX id of a licence's text, or "".
func identify(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, i := range identities {
		if strings.Contains(text, i.says) {
			return i.id
		}
	}
	return ""
}
