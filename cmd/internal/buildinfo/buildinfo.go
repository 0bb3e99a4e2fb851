// Package buildinfo tells which build of this module a program is, as the toolchain
// has recorded it. It starts no goroutines.
package buildinfo

import (
	"fmt"
	"runtime/debug"
)

// Info is a build. Its JSON is what "skerry version --output json" prints.
type Info struct {
	Version  string `json:"version"`            // of the module: a tag, or what the toolchain makes of a commit
	Revision string `json:"revision,omitempty"` // the commit
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Modified bool   `json:"modified"`           // the working tree had changes
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// Read is this program's build.
func Read() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Info{Version: "(unknown)"}
	}
	return Of(info)
}

// Of picks what is of interest in a build's record.
func Of(info *debug.BuildInfo) Info {
	settings := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	i := Info{
		Version: info.Main.Version, Revision: settings["vcs.revision"], Time: settings["vcs.time"], Modified: settings["vcs.modified"] == "true",
		Go: info.GoVersion, OS: settings["GOOS"], Arch: settings["GOARCH"],
	}
	if i.Version == "" {
		i.Version = "(devel)"
	}
	return i
}

// Text is the build in one line, after a program's name.
func (i Info) Text(program string) string {
	line := program + " " + i.Version
	if i.Revision != "" {
		line += " revision " + i.Revision
		if i.Time != "" {
			line += " of " + i.Time
		}
		if i.Modified {
			line += " with changes"
		}
	}
	return fmt.Sprintf("%s %s %s/%s", line, i.Go, i.OS, i.Arch)
}
