package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// labels are those of the OCI image spec, and where the SBOM is.
func labels(k kind, o options) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       k.name,
		"org.opencontainers.image.description": k.description,
		"org.opencontainers.image.version":     o.version,
		"org.opencontainers.image.revision":    o.revision,
		"org.opencontainers.image.created":     o.created.Format(time.RFC3339),
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/skerry-ft/skerry",
		"io.github.skerry-ft.sbom":             "/" + docsFolder + "sbom.cdx.json",
	}
}

// pack writes the archive of an image for all CPUs of which there are programs.
func pack(k kind, o options) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	n := 0
	for _, cpu := range slices.Sorted(maps.Keys(machines)) {
		programs := filepath.Join(o.programs, cpu)
		if _, err := os.Stat(programs); errors.Is(err, os.ErrNotExist) {
			continue
		}
		img, err := k.build(cpu, programs, o)
		if err != nil {
			return fmt.Errorf("image for %s: %w", cpu, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: cpu}},
		})
		n++
	}
	if n == 0 {
		return fmt.Errorf("%s has no folder amd64 or arm64 with programs", o.programs)
	}
	annotated, ok := mutate.Annotations(index, labels(k, o)).(v1.ImageIndex)
	if !ok {
		return errors.New("the library returned no index for an index")
	}
	return archive(o.target, k.name+":"+o.version, annotated, o.created)
}

// build makes the image for one CPU: a layer of what all images have, and one of its own.
func (k kind) build(cpu, programs string, o options) (v1.Image, error) {
	own, err := k.own(programs, o.docs)
	if err != nil {
		return nil, err
	}
	for _, f := range own {
		if filepath.Dir(f.name) != "usr/local/bin" {
			continue
		}
		if err := runsOn(f.body, cpu); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	cfg := &v1.ConfigFile{
		OS: "linux", Architecture: cpu, Created: v1.Time{Time: o.created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:         fmt.Sprintf("%d:%d", nonroot, nonroot),
			WorkingDir:   "/",
			Env:          []string{"PATH=/usr/local/bin", "HOME=/home/nonroot"},
			Entrypoint:   []string{"/usr/local/bin/" + k.programs[0]},
			Labels:       labels(k, o),
			StopSignal:   "SIGTERM",
			ExposedPorts: map[string]struct{}{},
		},
	}
	for _, p := range k.ports {
		cfg.Config.ExposedPorts[p] = struct{}{}
	}
	img, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), cfg)
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		files []file
		by    string
	}{{base(), "users, roots of trust, folders"}, {own, "programs and what they are made of"}} {
		layer, err := layerOf(part.files, o.created)
		if err != nil {
			return nil, err
		}
		img, err = mutate.Append(img, mutate.Addendum{
			Layer: layer, History: v1.History{Created: v1.Time{Time: o.created}, CreatedBy: "scripts/images", Comment: part.by},
		})
		if err != nil {
			return nil, err
		}
	}
	return img, nil
}

// layerOf packs files in their order, all of one time.
func layerOf(files []file, when time.Time) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode.Perm()), Uid: f.user, Gid: f.user, Size: int64(len(f.body)), ModTime: when, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if f.mode&os.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if f.isDir() {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
}

// archive writes an image layout with one index in it as a tar file.
func archive(target, name string, index v1.ImageIndex, when time.Time) (err error) {
	folder, err := os.MkdirTemp("", "images")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	l, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	// Podman and skopeo read the first, containerd and Docker the second.
	err = l.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": name,
		"io.containerd.image.name":          "docker.io/library/" + name,
	}))
	if err != nil {
		return err
	}
	out, err := os.Create(target)
	if err != nil {
		return err
	}
	return errors.Join(tarFolder(out, folder, when), out.Close())
}

// tarFolder packs a folder, names in order.
func tarFolder(out io.Writer, folder string, when time.Time) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name := strings.TrimPrefix(path, folder+"/")
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Name: name + "/", Mode: 0o755, ModTime: when, Typeflag: tar.TypeDir})
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(b)), ModTime: when, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	return errors.Join(err, w.Close())
}
