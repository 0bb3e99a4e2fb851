package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/resid"
)

const noComponents = "\ncomponents: []\n"

// kubernetesFolder renders the folder kubernetes: as it is, and with each of its components.
// What is rendered is checked, and each file must be a part of something that is rendered.
func kubernetesFolder(_ context.Context, t tree) error {
	memory, components, err := inMemory(t)
	if err != nil {
		return err
	}
	rendered, checked := make(map[string]bool), make(map[string]bool) // names of files, and objects
	for _, component := range append([]string{""}, components...) {
		all, problem := render(memory, component)
		if problem != nil {
			err = errors.Join(err, fmt.Errorf("kustomize, component %q: %w", component, problem))
			continue
		}
		for _, r := range all.Resources() {
			origin, problem := r.GetOrigin()
			if problem != nil || origin == nil {
				return errors.Join(err, fmt.Errorf("%s: of no known file: %w", r.CurId(), problem))
			}
			name := path.Join("kubernetes", origin.Path)
			rendered[name] = true
			text, problem := r.AsYAML()
			if checked[string(text)] { // of the base, once more
				continue
			}
			checked[string(text)] = true
			if problem == nil {
				problem = object(text, r.GetGvk())
			}
			if problem != nil {
				err = errors.Join(err, fmt.Errorf("%s, %s %s: %w", name, r.GetKind(), r.GetName(), problem))
			}
		}
	}
	for _, name := range t.names {
		if path.Base(name) != "kustomization.yaml" && !rendered[name] && err == nil {
			err = fmt.Errorf("%s: no kustomization renders it", name)
		}
	}
	return err
}

// object checks what is rendered by whose it is.
func object(text []byte, gvk resid.Gvk) error {
	switch gvk.Group {
	case "jobset.x-k8s.io":
		if gvk.Version != "v1alpha2" || gvk.Kind != "JobSet" {
			return fmt.Errorf("%s, want JobSet of v1alpha2", gvk)
		}
		return jobSetObject(text)
	case "monitoring.coreos.com":
		if gvk.Version != "v1" {
			return fmt.Errorf("%s, want version v1", gvk)
		}
		return monitoringObject(text, gvk.Kind)
	default:
		return kubernetesObject(text)
	}
}

// inMemory copies the files to where their kustomization may be changed, and finds the
// components.
func inMemory(t tree) (_ filesys.FileSystem, components []string, _ error) {
	memory := filesys.MakeFsInMemory()
	for _, name := range t.names {
		text, err := os.ReadFile(t.path(name))
		if err != nil {
			return nil, nil, err
		}
		if err := memory.WriteFile("/"+name, text); err != nil {
			return nil, nil, err
		}
		dir, file := path.Split(strings.TrimPrefix(name, "kubernetes/"))
		if file == "kustomization.yaml" && strings.Contains(string(text), "\nkind: "+types.ComponentKind+"\n") {
			components = append(components, strings.TrimSuffix(dir, "/"))
		}
	}
	slices.Sort(components)
	return memory, components, nil
}

// render is what kubectl kustomize does, with one component or none.
func render(memory filesys.FileSystem, component string) (resmap.ResMap, error) {
	const file = "/kubernetes/kustomization.yaml"
	before, err := memory.ReadFile(file)
	if err != nil {
		return nil, err
	}
	text := string(before)
	if strings.Count(text, noComponents) != 1 {
		return nil, fmt.Errorf("kubernetes/kustomization.yaml: no line %q, to put a component into", strings.TrimSpace(noComponents))
	}
	text = strings.Replace(text, noComponents, "\ncomponents: ["+component+"]\n", 1) + "\nbuildMetadata: [originAnnotations]\n"
	if err := memory.WriteFile(file, []byte(text)); err != nil {
		return nil, err
	}
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, "/kubernetes")
	return all, errors.Join(err, memory.WriteFile(file, before))
}
