package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

// object is a JSON object whose values are encoded, or encode as patches.
type object map[string]any

// patch returns what has to be merged (RFC 7386) into old to come to now; nil: nothing.
// Rows that are equal cost a comparison and are not encoded.
func patch(old, now api.Document) object {
	p := diff(old.Head, now.Head)
	if jobs := patchRows(old.Jobs, now.Jobs, patchJob); len(jobs) > 0 {
		p["jobs"] = jobs
	}
	if servers := patchRows(old.Servers, now.Servers, diff); len(servers) > 0 {
		p["servers"] = servers
	}
	return p
}

func patchJob(old, now api.JobDocument) object {
	p := diff(old.JobFacts, now.JobFacts)
	if rows := patchRows(old.Replicas, now.Replicas, diff); len(rows) > 0 {
		p["replicas"] = rows
	}
	return p
}

// patchRows is the patch of a map of rows: null for those that are gone, the whole of
// those that are new, and of the others what differs.
func patchRows[T any](old, now map[string]T, differ func(old, now T) object) object {
	p := object{}
	for name := range old {
		if _, ok := now[name]; !ok {
			p[name] = nil
		}
	}
	for name, row := range now {
		before, ok := old[name]
		if !ok {
			p[name] = row
		} else if d := differ(before, row); len(d) > 0 {
			p[name] = d
		}
	}
	return p
}

// diff is the patch from one struct to another of its type. A field that is an object is
// patched as a whole: what such a one no longer has is taken out by null.
func diff[T any](old, now T) object {
	if reflect.DeepEqual(old, now) {
		return object{}
	}
	return merge(fields(old), fields(now))
}

func merge(before, after map[string]json.RawMessage) object {
	p := object{}
	for name := range before {
		if _, ok := after[name]; !ok {
			p[name] = nil
		}
	}
	for name, value := range after {
		was, ok := before[name]
		switch {
		case ok && bytes.Equal(was, value):
		case ok && isObject(was) && isObject(value):
			p[name] = merge(parsed(was), parsed(value))
		default:
			p[name] = value
		}
	}
	return p
}

func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }

// fields are a struct's, encoded.
func fields(v any) map[string]json.RawMessage { return parsed(encoded(v)) }

func parsed(object json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(object, &m); err != nil {
		panic(fmt.Sprintf("live: parse what was encoded here: %v", err))
	}
	return m
}

// encoded is v as JSON. The types of package api all encode: they have no functions,
// channels, or numbers that are none.
func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("live: encode a %T: %v", v, err))
	}
	return text
}
