package main

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

const composeBase = "compose/compose.yaml"

// composeFolder loads compose.yaml as docker compose does, and each other file laid over it.
func composeFolder(ctx context.Context, t tree) error {
	var all error
	for _, name := range t.names {
		files := []types.ConfigFile{{Filename: t.path(composeBase)}}
		if name != composeBase {
			files = append(files, types.ConfigFile{Filename: t.path(name)})
		}
		if err := compose(ctx, path.Dir(t.path(name)), files); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", name, err))
		}
	}
	return all
}

// compose loads files. The schema refuses unknown keys, the loader what does not fit together.
func compose(ctx context.Context, dir string, files []types.ConfigFile) error {
	details := types.ConfigDetails{WorkingDir: dir, ConfigFiles: files, Environment: types.Mapping{}}
	project, err := loader.LoadWithContext(ctx, details, func(o *loader.Options) { o.SetProjectName("validate", false) })
	if err != nil {
		return err
	}
	for name, s := range project.Services {
		if s.Image == "" && s.Build == nil {
			err = errors.Join(err, fmt.Errorf("services.%s: neither image nor build", name))
		}
		for _, on := range s.GetDependencies() {
			if d := project.Services[on]; s.DependsOn[on].Condition == types.ServiceConditionHealthy && d.HealthCheck == nil {
				err = errors.Join(err, fmt.Errorf("services.%s: waits until %s is healthy, which has no healthcheck", name, on))
			}
		}
	}
	return err
}
