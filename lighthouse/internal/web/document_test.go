package web

// This file makes the OpenAPI document of the API from its routes and the Go types of what they
// take and answer, with the comments of those types.

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"regexp"
	"strings"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

// makeOpenAPI makes the document that is committed as openapi.json, with the comments of
// package api.
func makeOpenAPI(comments map[string]string) ([]byte, error) {
	var routes []route
	for _, r := range (&Server{actions: noActions{}}).apiRoutes() {
		routes = append(routes, r.route)
	}
	return document(apiInfo{
		Title: "Skerry lighthouse", Version: "1",
		Doc: "What a lighthouse knows and does. Times that end in at_ms, since_ms, started_ms, created_ms, until_ms and now_ms are " +
			"Unix milliseconds, other _ms are durations. What is absent is not known. Texts come from elsewhere: show them as text.",
		Failure: api.Failure{},
	}, routes, comments)
}

// noActions is for routes that are only read.
type noActions struct{ Actions }

// openAPIVersion is the version of OpenAPI that document writes.
const openAPIVersion = "3.1.0"

// apiInfo is what is said of the API as a whole.
type apiInfo struct {
	Title, Version, Doc string
	Failure             any // a value of the type that every error's answer has
}

// object is a JSON object; encoding/json sorts its names.
type object map[string]any

// document returns the document, indented. comments are as commentsIn has them.
func document(info apiInfo, routes []route, comments map[string]string) ([]byte, error) {
	s := &schemas{comments: comments, all: object{}}
	failure := s.content("application/json", info.Failure)
	paths := object{}
	for _, r := range routes {
		item, _ := paths[r.Path].(object)
		if item == nil {
			item = object{}
			paths[r.Path] = item
		}
		item[strings.ToLower(r.Method)] = s.operation(r, failure)
	}
	if s.err != nil {
		return nil, s.err
	}
	text, err := json.MarshalIndent(object{
		"openapi": openAPIVersion,
		"info":    object{"title": info.Title, "version": info.Version, "description": info.Doc},
		"paths":   paths,
		"components": object{
			"schemas": s.all,
			"securitySchemes": object{"token": object{
				"type": "http", "scheme": "bearer", "description": "The operators' token, where one is set.",
			}},
		},
	}, "", "  ")
	return append(text, '\n'), err
}

var pathPart = regexp.MustCompile(`\{(\w+)\}`)

func (s *schemas) operation(r route, failure object) object {
	op := object{"summary": r.Summary}
	var params []object
	for _, part := range pathPart.FindAllStringSubmatch(r.Path, -1) {
		params = append(params, object{"name": part[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range r.Query {
		kind := "string"
		if p.Integer {
			kind = "integer"
		}
		params = append(params, object{"name": p.Name, "in": "query", "description": p.Doc, "schema": object{"type": kind}})
	}
	if params != nil {
		op["parameters"] = params
	}
	if r.Body != nil {
		op["requestBody"] = object{"required": true, "content": s.content("application/json", r.Body)}
		op["security"] = []object{{}, {"token": []string{}}}
	}
	responses := object{"default": object{"description": "An error", "content": failure}}
	content := object{}
	if r.Answer != nil {
		content = s.content("application/json", r.Answer)
	}
	for kind, of := range r.Streams {
		content[kind] = object{"schema": s.of(reflect.TypeOf(of))}
	}
	switch {
	case len(content) > 0:
		responses["200"] = object{"description": "The answer", "content": content}
	case r.Method == "GET":
		responses["200"] = object{"description": "The answer"}
	default:
		responses["204"] = object{"description": "Done"}
	}
	op["responses"] = responses
	return op
}

// schemas are those of the types that were met.
type schemas struct {
	comments map[string]string
	all      object // by the type's name
	err      error  // the first type that has no schema
}

func (s *schemas) content(kind string, v any) object {
	return object{kind: object{"schema": s.of(reflect.TypeOf(v))}}
}

// of is the schema of a type; of a struct, a reference to it.
func (s *schemas) of(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "format": "int64", "minimum": 0}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		if _, met := s.all[t.Name()]; !met {
			one := object{"type": "object"}
			s.all[t.Name()] = one // before its fields, which may be of it
			s.fill(one, t)
		}
		return object{"$ref": "#/components/schemas/" + t.Name()}
	}
	if s.err == nil {
		s.err = fmt.Errorf("openapi: no schema for type %v", t)
	}
	return object{}
}

func (s *schemas) fill(one object, t reflect.Type) {
	if doc := s.comments[t.Name()]; doc != "" {
		one["description"] = doc
	}
	properties := object{}
	var required []string
	s.fields(t, func(name string, optional bool, schema object) {
		properties[name] = schema
		if !optional {
			required = append(required, name)
		}
	})
	one["properties"] = properties
	if required != nil {
		one["required"] = required
	}
}

// fields tells the fields of a struct as encoding/json has them: those of an embedded one
// are its own.
func (s *schemas) fields(t reflect.Type, tell func(name string, optional bool, schema object)) {
	for f := range t.Fields() {
		tag, tagged := f.Tag.Lookup("json")
		if f.Anonymous && !tagged {
			s.fields(f.Type, tell)
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		schema := s.of(f.Type)
		if doc := s.comments[t.Name()+"."+f.Name]; doc != "" {
			schema["description"] = doc
		}
		tell(name, strings.Contains(options, "omitempty"), schema)
	}
}

// commentsIn reads the comments of the struct types in the Go files of a folder, by "Type"
// and "Type.Field".
func commentsIn(dir fs.FS) (map[string]string, error) {
	names, err := fs.Glob(dir, "*.go")
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				collect(all, g)
			}
		}
	}
	return all, nil
}

func collect(all map[string]string, g *ast.GenDecl) {
	for _, spec := range g.Specs {
		t, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		all[t.Name.Name] = words(g.Doc, t.Doc)
		s, ok := t.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				all[t.Name.Name+"."+name.Name] = words(f.Doc, f.Comment)
			}
		}
	}
}

// words are the comments in one line.
func words(groups ...*ast.CommentGroup) string {
	var all []string
	for _, g := range groups {
		if g != nil {
			all = append(all, strings.Fields(g.Text())...)
		}
	}
	return strings.Join(all, " ")
}
