package buildinfo_test

import (
	"runtime/debug"
	"testing"

	"github.com/skerry-ft/skerry/cmd/internal/buildinfo"
)

// A release tells its tag, its commit and its toolchain; so does a build of a working tree.
func TestText(t *testing.T) {
	t.Parallel()
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-28T01:00:00Z"}, {Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "amd64"}}
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"}, Settings: settings}
	if got, want := buildinfo.Of(info).Text("skerry"), "skerry v1.2.3 revision abc of 2026-11-28T01:00:00Z go1.26.8 linux/amd64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	info.Main.Version = ""
	info.Settings = append(settings, debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	if got, want := buildinfo.Of(info).Text("skerry"), "skerry (devel) revision abc of 2026-11-28T01:00:00Z with changes go1.26.8 linux/amd64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if buildinfo.Read().Go == "" {
		t.Error("this test's build has no toolchain")
	}
}
