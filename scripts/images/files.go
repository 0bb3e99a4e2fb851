package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// file is one of an image. A folder's name ends with a slash.
type file struct {
	name string // without a slash in front
	mode fs.FileMode
	user int // owner and group
	body []byte
}

func (f file) isDir() bool { return strings.HasSuffix(f.name, "/") }

// The docs of an image, by which a scanner and a lawyer know what it has.
const docsFolder = "usr/share/doc/skerry/"

// base are the files that every image has, parents first.
func base() []file {
	var roots bytes.Buffer
	for r := range bundle.Roots() {
		_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}) // a buffer takes all
	}
	dir := func(name string) file { return file{name: name, mode: 0o755} }
	return []file{
		dir("etc/"),
		{name: "etc/group", mode: 0o644, body: []byte("root:x:0:\nnonroot:x:65532:\n")},
		// getaddrinfo's order: without this file some resolvers ask DNS before /etc/hosts.
		{name: "etc/nsswitch.conf", mode: 0o644, body: []byte("hosts: files dns\n")},
		{name: "etc/passwd", mode: 0o644, body: []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")},
		dir("etc/ssl/"), dir("etc/ssl/certs/"),
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, body: roots.Bytes()},
		dir("home/"),
		{name: "home/nonroot/", mode: 0o700, user: nonroot},
		{name: "tmp/", mode: 0o777 | fs.ModeSticky},
		dir("usr/"), dir("usr/local/"), dir("usr/local/bin/"), dir("usr/share/"), dir("usr/share/doc/"), dir(docsFolder),
	}
}

// own are the files of one kind of image, with the programs of a folder.
func (k kind) own(programs, docs string) ([]file, error) {
	var all []file
	for _, name := range k.folders {
		all = append(all, file{name: name + "/", mode: 0o755, user: nonroot})
	}
	for _, name := range k.programs {
		b, err := os.ReadFile(filepath.Join(programs, name))
		if err != nil {
			return nil, err
		}
		if err := static(b); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, file{name: "usr/local/bin/" + name, mode: 0o755, body: b})
	}
	for _, name := range []string{"LICENSE", "NOTICE", "sbom.cdx.json"} {
		b, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: docsFolder + name, mode: 0o644, body: b})
	}
	return all, nil
}

// files are all of an image.
func (k kind) files(programs, docs string) ([]file, error) {
	own, err := k.own(programs, docs)
	return append(base(), own...), err
}

// writeTree writes files into a folder that is new or empty. Only root may give files away.
func writeTree(folder string, files []file) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	there, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("%s has files already, want an empty folder", folder)
	}
	for _, f := range files {
		at := filepath.Join(folder, f.name)
		if f.isDir() {
			err = os.Mkdir(at, 0o755)
		} else {
			err = os.WriteFile(at, f.body, 0o600)
		}
		if err != nil {
			return err
		}
		if f.user != 0 {
			if err := os.Chown(at, f.user, f.user); err != nil {
				return err
			}
		}
		if err := os.Chmod(at, f.mode); err != nil {
			return err
		}
	}
	return nil
}
