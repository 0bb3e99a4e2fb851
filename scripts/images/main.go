// Command images packs container images without a daemon and without a base image: the static
// programs, the roots of trust of the web, a user that is not root, licences and an SBOM.
//
//	images pack --image skerry --programs DIR --docs DIR --version V --revision SHA --epoch SECONDS FILE
//	images tree --image skerry --programs DIR --docs DIR FOLDER
//
// pack writes an archive of an OCI image layout with one index for all CPUs of which
// DIR/CPU (amd64, arm64) has the programs. podman, docker and ctr load it; skopeo copies it to a registry.
// The same input gives the same bytes. tree writes the files of the image into a folder, from
// DIR without a CPU: deploy/images/Dockerfile copies them, so both ways give the same files.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "images: %v\n", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	image, programs, docs string
	version, revision     string
	created               time.Time
	target                string
}

func run(args []string) error {
	if len(args) == 0 || args[0] != "pack" && args[0] != "tree" {
		return fmt.Errorf("arguments %q, want pack or tree, then flags", args)
	}
	o, err := parse(args[0], args[1:])
	if err != nil {
		return err
	}
	k, err := kindNamed(o.image)
	if err != nil {
		return err
	}
	if args[0] == "tree" {
		files, err := k.files(o.programs, o.docs)
		if err != nil {
			return err
		}
		return writeTree(o.target, files)
	}
	return pack(k, o)
}

func parse(verb string, args []string) (o options, err error) {
	f := flag.NewFlagSet(verb, flag.ContinueOnError)
	f.StringVar(&o.image, "image", "", "which: "+strings.Join(kindNames(), " or "))
	f.StringVar(&o.programs, "programs", "", "folder of the programs; for pack, of a folder for each CPU")
	f.StringVar(&o.docs, "docs", "", "folder with LICENSE, NOTICE and sbom.cdx.json")
	f.StringVar(&o.version, "version", "", "label version, and the image's tag")
	f.StringVar(&o.revision, "revision", "", "label revision: the commit")
	epoch := f.Int64("epoch", 0, "when the image was created, in seconds since 1970")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() != 1 {
		return o, fmt.Errorf("%s: targets %q, want one", verb, f.Args())
	}
	o.target, o.created = f.Arg(0), time.Unix(*epoch, 0).UTC()
	for name, v := range map[string]string{"programs": o.programs, "docs": o.docs} {
		if v == "" {
			err = errors.Join(err, fmt.Errorf("%s: --%s is not given", verb, name))
		}
	}
	if verb == "pack" && (o.version == "" || o.revision == "") {
		err = errors.Join(err, errors.New("pack: want --version and --revision: an image says what it is"))
	}
	return o, err
}
