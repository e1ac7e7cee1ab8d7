// Calls ComputeDouble of the group dummy over a Unix socket, knowing only what reflection says.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// main takes a socket, the full name of a service, the name of the request's field, and a number.
func main() {
	path, service, field := os.Args[1], os.Args[2], os.Args[3]
	number, err := strconv.ParseInt(os.Args[4], 10, 64)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	connection, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	defer connection.Close()

	method := find(ctx, connection, service)
	request := dynamicpb.NewMessage(method.Input())
	request.Set(method.Input().Fields().ByName(protoreflect.Name(field)), value(method, field, number))
	response := dynamicpb.NewMessage(method.Output())
	err = connection.Invoke(ctx, "/"+service+"/"+string(method.Name()), request, response)
	if err != nil {
		fmt.Println(status.Code(err), status.Convert(err).Message())
		return
	}
	response.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		fmt.Println(field.Name(), value)
		return true
	})
}

// value returns the number as the type of the field.
func value(method protoreflect.MethodDescriptor, field string, number int64) protoreflect.Value {
	if method.Input().Fields().ByName(protoreflect.Name(field)).Kind() == protoreflect.Int32Kind {
		return protoreflect.ValueOfInt32(int32(number))
	}
	return protoreflect.ValueOfInt64(number)
}

// find asks the server's reflection for the first method of a service.
func find(ctx context.Context, connection *grpc.ClientConn, service string) protoreflect.MethodDescriptor {
	stream, err := reflection.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	check(err)
	check(stream.Send(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
	}))
	answer, err := stream.Recv()
	check(err)
	set := &descriptorpb.FileDescriptorSet{}
	for _, encoded := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		check(proto.Unmarshal(encoded, file))
		set.File = append(set.File, file)
	}
	files, err := protodesc.NewFiles(set)
	check(err)
	return descriptor(files, service).Methods().Get(0)
}

func descriptor(files *protoregistry.Files, service string) protoreflect.ServiceDescriptor {
	found, err := files.FindDescriptorByName(protoreflect.FullName(service))
	check(err)
	return found.(protoreflect.ServiceDescriptor)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
