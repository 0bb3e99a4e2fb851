package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// Source of the fields: the JSON schema of CycloneDX 1.5 (bom-1.5.schema.json), and
// the purl specification's type "golang".
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   bomMetadata `json:"metadata"`
	Components []component `json:"components"`
}

type bomMetadata struct {
	Component component `json:"component"`
}

type component struct {
	Type     string       `json:"type"`
	Ref      string       `json:"bom-ref"`
	Name     string       `json:"name"`
	Version  string       `json:"version,omitempty"`
	Purl     string       `json:"purl"`
	Licenses []bomLicense `json:"licenses,omitempty"`
}

type bomLicense struct {
	License bomLicenseID `json:"license"`
}

type bomLicenseID struct {
	ID string `json:"id"`
}

// writeSBOM writes what is linked as a bill of materials.
func writeSBOM(w io.Writer, s supply) error {
	purl := "pkg:golang/" + s.main
	b := bom{Format: "CycloneDX", Spec: "1.5", Version: 1,
		Metadata: bomMetadata{component{Type: "application", Ref: purl, Name: s.main, Purl: purl}}}
	for _, m := range s.modules {
		purl := "pkg:golang/" + m.Path
		if m.Version != "" {
			purl += "@" + m.Version
		}
		c := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, Purl: purl}
		for _, l := range m.licences {
			if l.id != "" {
				c.Licenses = append(c.Licenses, bomLicense{bomLicenseID{l.id}})
			}
		}
		b.Components = append(b.Components, c)
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the SBOM: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}
