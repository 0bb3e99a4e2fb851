// Command gen compiles the .proto files of internal/wire and writes the Go
// code for their messages and services.
//
// It needs no protoc: protocompile parses the files, and the two plugins
// pinned as tools in go.mod are fed the compiled descriptors the way protoc
// would. Run it with go generate from internal/wire.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const modulePath = "github.com/skerry-ft/skerry/internal/wire"

func main() {
	if err := run(context.Background(), "proto", []string{"skerry.proto", "cluster.proto", "torchft.proto"}); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run generates the code for the named files of dir, one plugin run per file
// and plugin, into the folder that each file's go_package names.
func run(ctx context.Context, dir string, names []string) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return fmt.Errorf("compile %s: %w", strings.Join(names, ", "), err)
	}
	for _, f := range files {
		var all []*descriptorpb.FileDescriptorProto
		for i := range f.Imports().Len() {
			all = append(all, protodesc.ToFileDescriptorProto(f.Imports().Get(i).FileDescriptor))
		}
		all = append(all, protodesc.ToFileDescriptorProto(f))
		for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
			if err := generate(ctx, plugin, f.Path(), all); err != nil {
				return fmt.Errorf("generate %s with %s: %w", f.Path(), plugin, err)
			}
		}
	}
	return nil
}

// generate feeds one request to a plugin and writes the files of its answer
// below the working directory.
func generate(ctx context.Context, plugin, name string, files []*descriptorpb.FileDescriptorProto) error {
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		Parameter:      proto.String("module=" + modulePath),
		ProtoFile:      files,
	})
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin = bytes.NewReader(request)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run the plugin: %w", err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return fmt.Errorf("decode the answer: %w", err)
	}
	if response.Error != nil {
		return fmt.Errorf("plugin says: %s", response.GetError())
	}
	for _, f := range response.File {
		if err := os.MkdirAll(filepath.Dir(f.GetName()), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(f.GetName(), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
