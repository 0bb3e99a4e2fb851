package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// validator is what reads some of the files.
type validator struct {
	name   string
	claims []string // patterns of path.Match, for paths below the folder
	check  func(context.Context, tree) error
}

// tree is a folder, and those of its files that a validator claims.
type tree struct {
	root  string
	names []string // with slashes, below the root
}

// validators are all there are. A file is of the first that claims it.
var validators = []validator{
	{"Kubernetes API, rendered by kustomize", []string{"kubernetes/*.yaml", "kubernetes/*/*.yaml"}, kubernetesFolder},
	{"compose-go", []string{"compose/*.yaml"}, composeFolder},
	{"Nomad API", []string{"nomad/*.hcl"}, each(nomadFile)},
	{"BuildKit", []string{"images/Dockerfile*"}, each(containerFile)},
	{"Grafana SDK", []string{"grafana/*.json"}, each(dashboard)},
	{"schema of Grafana's documents", []string{"grafana/provisioning/*/*.yaml"}, each(provisioning)},
	{"promtool", []string{"prometheus/*.yml"}, promtool},
	{"systemd-analyze", []string{"systemd/*.service", "systemd/*.socket"}, systemdAnalyze},
	{"shellcheck", []string{"slurm/*", "compose/make-secrets"}, shellcheck},
}

// madeSecrets is what compose/make-secrets makes: no part of the repository.
const madeSecrets = "compose/secrets"

// assign gives each validator its files.
func assign(root string) ([]tree, error) {
	trees := make([]tree, len(validators))
	for i := range trees {
		trees[i].root = root
	}
	var orphans error
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if d.IsDir() {
			if name == madeSecrets {
				return fs.SkipDir
			}
			return nil
		}
		for i, v := range validators {
			if v.claim(name) {
				trees[i].names = append(trees[i].names, name)
				return nil
			}
		}
		orphans = errors.Join(orphans, fmt.Errorf("%s: no validator reads it; have one claim it in test/deploy/validate/validators.go", name))
		return nil
	})
	return trees, errors.Join(err, orphans)
}

func (v validator) claim(name string) bool {
	for _, pattern := range v.claims {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}

// each makes a check of a folder of one for the text of a file.
func each(check func(text []byte, name string) error) func(context.Context, tree) error {
	return func(_ context.Context, t tree) error {
		var all error
		for _, name := range t.names {
			text, err := os.ReadFile(t.path(name))
			if err == nil {
				err = check(text, name)
			}
			if err != nil {
				all = errors.Join(all, fmt.Errorf("%s: %w", name, err))
			}
		}
		return all
	}
}

func (t tree) path(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }
