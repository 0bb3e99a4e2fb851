package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"go.yaml.in/yaml/v3"
)

// dashboard decodes a dashboard strictly into Grafana's types, whose own checks follow.
func dashboard(text []byte, _ string) error {
	kinds := cog.NewRuntime() // of the process: Grafana's types look there
	kinds.RegisterPanelcfgVariant(stat.VariantConfig())
	kinds.RegisterPanelcfgVariant(timeseries.VariantConfig())
	kinds.RegisterDataqueryVariant(prometheus.VariantConfig())
	var d grafana.Dashboard
	if err := some(d.UnmarshalJSONStrict(text)); err != nil {
		return err
	}
	if err := some(d.Validate()); err != nil {
		return err
	}
	return panels(kinds, text)
}

// some is err, but for a list of errors with none in it, which Grafana's types return.
func some(err error) error {
	var all cog.BuildErrors
	if errors.As(err, &all) && len(all) == 0 {
		return nil
	}
	return err
}

// panels checks those of a dashboard or a row, one by one: Grafana's type of a dashboard has the
// fields of a panel checked when it decodes, and keeps none of it. Each must be of a type that is
// known: the options of others are not checked.
func panels(kinds *cog.Runtime, text []byte) error {
	var of struct {
		Panels []json.RawMessage `json:"panels"`
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return err
	}
	var all error
	for i, one := range of.Panels {
		var p grafana.Panel
		err := json.Unmarshal(one, &p)
		_, known := kinds.ConfigForPanelcfgVariant(p.Type)
		switch {
		case err != nil:
		case p.Type == "row":
			err = panels(kinds, one)
		case !known:
			err = fmt.Errorf("type %q; register it in test/deploy/validate/grafana.go", p.Type)
		default:
			err = errors.Join(some(p.UnmarshalJSONStrict(one)), some(p.Validate()))
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("panels[%d]: %w", i, err))
		}
	}
	return all
}

// datasources and dashboards have the fields that Grafana's documentation lists
// (https://grafana.com/docs/grafana/latest/administration/provisioning/), those of them that
// are not secret: Grafana's own types are in no module that can be fetched.
type datasources struct {
	APIVersion        int   `yaml:"apiVersion"`
	Prune             bool  `yaml:"prune"`
	DeleteDatasources []any `yaml:"deleteDatasources"`
	Datasources       []struct {
		Name            string         `yaml:"name"`
		Type            string         `yaml:"type"`
		Access          string         `yaml:"access"`
		OrgID           int64          `yaml:"orgId"`
		UID             string         `yaml:"uid"`
		URL             string         `yaml:"url"`
		User            string         `yaml:"user"`
		Database        string         `yaml:"database"`
		BasicAuth       bool           `yaml:"basicAuth"`
		BasicAuthUser   string         `yaml:"basicAuthUser"`
		WithCredentials bool           `yaml:"withCredentials"`
		IsDefault       bool           `yaml:"isDefault"`
		JSONData        map[string]any `yaml:"jsonData"`
		Version         int            `yaml:"version"`
		Editable        bool           `yaml:"editable"`
	} `yaml:"datasources"`
}

type dashboards struct {
	APIVersion int `yaml:"apiVersion"`
	Providers  []struct {
		Name                  string `yaml:"name"`
		OrgID                 int64  `yaml:"orgId"`
		Folder                string `yaml:"folder"`
		FolderUID             string `yaml:"folderUid"`
		Type                  string `yaml:"type"`
		DisableDeletion       bool   `yaml:"disableDeletion"`
		UpdateIntervalSeconds int64  `yaml:"updateIntervalSeconds"`
		AllowUIUpdates        bool   `yaml:"allowUiUpdates"`
		Options               struct {
			Path                      string `yaml:"path"`
			FoldersFromFilesStructure bool   `yaml:"foldersFromFilesStructure"`
		} `yaml:"options"`
	} `yaml:"providers"`
}

// provisioning checks what Grafana reads when it starts, by its folder.
func provisioning(text []byte, name string) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	switch folder := path.Base(path.Dir(name)); folder {
	case "datasources":
		var v datasources
		if err := d.Decode(&v); err != nil {
			return err
		}
		err := version(v.APIVersion)
		for i, s := range v.Datasources {
			if s.Name == "" || s.Type == "" || s.Access != "proxy" && s.Access != "direct" {
				err = errors.Join(err, fmt.Errorf("datasources[%d]: name %q, type %q, access %q: want all three, and access proxy or direct", i, s.Name, s.Type, s.Access))
			}
		}
		return err
	case "dashboards":
		var v dashboards
		if err := d.Decode(&v); err != nil {
			return err
		}
		err := version(v.APIVersion)
		for i, p := range v.Providers {
			if p.Name == "" || p.Type != "file" || p.Options.Path == "" {
				err = errors.Join(err, fmt.Errorf("providers[%d]: name %q, type %q, options.path %q: want all three, and type file", i, p.Name, p.Type, p.Options.Path))
			}
		}
		return err
	default:
		return fmt.Errorf("folder %q, want datasources or dashboards", folder)
	}
}

func version(v int) error {
	if v != 1 {
		return fmt.Errorf("apiVersion: %d, want 1", v)
	}
	return nil
}
