package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// nonroot is the user of the images, by the number that distroless' images have made usual.
const nonroot = 65532

// kind is one of the images.
type kind struct {
	name        string
	description string
	programs    []string // of /usr/local/bin; the first is the entry point
	folders     []string // of the user's: a volume that is mounted over one takes its owner
	ports       []string
}

// kinds are the images of a release. deploy/images/Dockerfile has a target for each.
var kinds = map[string]kind{
	"skerry": {
		name: "skerry", description: "Skerry's lighthouse server, and the command skerry",
		programs: []string{"lighthouse", "skerry"}, folders: []string{"data"},
		ports: []string{"29510/tcp", "29511/tcp", "29512/tcp", "29512/udp"},
	},
	"trainer": {
		name: "skerry-trainer", description: "the trainer of Skerry's examples, for the CPU",
		programs: []string{"trainer"}, folders: []string{"checkpoints"},
	},
}

func kindNames() []string { return slices.Sorted(maps.Keys(kinds)) }

func kindNamed(name string) (kind, error) {
	k, ok := kinds[name]
	if !ok {
		return kind{}, fmt.Errorf("--image = %q, want %s", name, strings.Join(kindNames(), " or "))
	}
	return k, nil
}
