package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// NOTICE is what is linked now, and the SBOM names the same.
func TestNoticeIsFresh(t *testing.T) {
	t.Parallel()
	var notice, sbom bytes.Buffer
	if err := run(t.Context(), []string{"notice"}, &notice); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, notice.Bytes()) {
		t.Errorf("NOTICE is stale: run go generate ./internal/supply, and commit it")
	}
	if err := run(t.Context(), []string{"sbom"}, &sbom); err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal(sbom.Bytes(), &b); err != nil || b.Format != "CycloneDX" || len(b.Components) < 20 {
		t.Fatalf("%v: %.300s", err, &sbom)
	}
	seen := make(map[string]bool)
	for _, c := range b.Components {
		if seen[c.Ref] || len(c.Licenses) == 0 || c.Version == "" && c.Name != "std" {
			t.Errorf("component %+v", c)
		}
		seen[c.Ref] = true
		if c.Name != "std" && !strings.Contains(notice.String(), "\n"+c.Name+" "+c.Version+": "+c.Licenses[0].License.ID) {
			t.Errorf("%s %s is not in NOTICE", c.Name, c.Version)
		}
	}
	for _, must := range []string{"github.com/hashicorp/raft", "google.golang.org/grpc", "std"} {
		if !strings.Contains(sbom.String(), `"name": "`+must+`"`) {
			t.Errorf("%s is not in the SBOM", must)
		}
	}
	if strings.Contains(sbom.String(), "staticcheck") || strings.Contains(sbom.String(), "goleak") {
		t.Error("a tool, or what only tests use, is in the SBOM")
	}
}

// What has no licence, or an unknown one, is an error that says so.
func TestLicencesIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := licencesIn(dir); err == nil || !strings.Contains(err.Error(), "no licence") {
		t.Errorf("an empty module: %v", err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("NOTICE", "thanks to all")
	if _, err := licencesIn(dir); err == nil {
		t.Error("a notice passed for a licence")
	}
	write("LICENSE", "Permission is hereby granted, free of\r\ncharge, to any person")
	got, err := licencesIn(dir)
	if err != nil || len(got) != 2 || got[0].id != "MIT" || got[1].id != "" {
		t.Errorf("%+v, %v", got, err)
	}
	write("LICENSE", "all rights reserved")
	if _, err := licencesIn(dir); err == nil || !strings.Contains(err.Error(), "LICENSE is a licence that") {
		t.Errorf("an unknown licence: %v", err)
	}
}
