! Fortran through iso_c_binding: each process squares its id, and the squares are added on the way up the tree.
!
!     gfortran sum.f90 $(pkg-config --libs chained_gpc) -o sum && mpiexec -n 4 ./sum
module chained_gpc
   use, intrinsic :: iso_c_binding
   implicit none

   integer(c_int), parameter :: CGPC_OK = 0

   ! cgpc_child of the header.
   type, bind(C) :: cgpc_child
      integer(c_int32_t) :: from
      type(c_ptr) :: header
      integer(c_size_t) :: header_len
      type(c_ptr) :: data
      integer(c_size_t) :: data_len
   end type

   ! cgpc_call_args of the header: fields that are 0 or null have their defaults.
   type, bind(C) :: cgpc_call_args
      integer(c_size_t) :: size = 0
      integer(c_int64_t) :: func = 0, callback = 0
      type(c_ptr) :: header = c_null_ptr
      integer(c_size_t) :: header_len = 0
      type(c_ptr) :: data = c_null_ptr
      integer(c_size_t) :: data_len = 0
      type(c_funptr) :: data_release = c_null_funptr
      type(c_ptr) :: data_release_arg = c_null_ptr
      type(c_ptr) :: ids = c_null_ptr
      integer(c_size_t) :: id_count = 0
      integer(c_int32_t) :: first_id = 0, flags = 0
      type(c_ptr) :: tree = c_null_ptr
      integer(c_int64_t) :: reply_header_max = 0, reply_data_max = 0, limit_us = 0
   end type

   interface
      integer(c_int) function cgpc_context_new(context) bind(C)
         import
         type(c_ptr), intent(out) :: context
      end function
      integer(c_int) function cgpc_register(context, name, func, arg, options, number) bind(C)
         import
         type(c_ptr), value :: context, arg, options
         character(kind=c_char), intent(in) :: name(*)
         type(c_funptr), value :: func
         integer(c_int64_t), intent(out) :: number
      end function
      integer(c_int) function cgpc_register_callback(context, name, func, arg, options, number) bind(C)
         import
         type(c_ptr), value :: context, arg, options
         character(kind=c_char), intent(in) :: name(*)
         type(c_funptr), value :: func
         integer(c_int64_t), intent(out) :: number
      end function
      integer(c_int) function cgpc_start_launched(context, options) bind(C)
         import
         type(c_ptr), value :: context, options
      end function
      integer(c_int) function cgpc_id(context, id) bind(C)
         import
         type(c_ptr), value :: context
         integer(c_int32_t), intent(out) :: id
      end function
      integer(c_int) function cgpc_count(context, count) bind(C)
         import
         type(c_ptr), value :: context
         integer(c_int32_t), intent(out) :: count
      end function
      integer(c_int) function cgpc_call_args_init(args, size) bind(C)
         import
         type(cgpc_call_args), intent(out) :: args
         integer(c_size_t), value :: size
      end function
      integer(c_int) function cgpc_call_run_into(context, args, header, header_len, data, data_len, outcome) bind(C)
         import
         type(c_ptr), value :: context, header, header_len, data, outcome
         type(cgpc_call_args), intent(in) :: args
         integer(c_size_t), intent(inout) :: data_len
      end function
      integer(c_int) function cgpc_request_me(request, id) bind(C)
         import
         type(c_ptr), value :: request
         integer(c_int32_t), intent(out) :: id
      end function
      integer(c_int) function cgpc_reply_set_data(reply, data, length) bind(C)
         import
         type(c_ptr), value :: reply, data
         integer(c_size_t), value :: length
      end function
      integer(c_int) function cgpc_reply_data(reply, data, length) bind(C)
         import
         type(c_ptr), value :: reply
         type(c_ptr), intent(out) :: data
         integer(c_size_t), intent(out) :: length
      end function
      integer(c_int) function cgpc_serve(context) bind(C)
         import
         type(c_ptr), value :: context
      end function
      integer(c_int) function cgpc_finalize(context, limit_us) bind(C)
         import
         type(c_ptr), value :: context
         integer(c_int64_t), value :: limit_us
      end function
   end interface

contains

   subroutine must(status)
      integer(c_int), intent(in) :: status
      if (status < CGPC_OK) then
         print *, 'a function of chained_gpc has failed with ', status
         stop 1
      end if
   end subroutine
end module

module functions
   use chained_gpc
   implicit none
contains

   integer(c_int) function square(request, reply, arg) bind(C)
      type(c_ptr), value :: request, reply, arg
      integer(c_int32_t) :: id
      integer(c_int64_t), target :: mine
      call must(cgpc_request_me(request, id))
      mine = int(id, c_int64_t)**2
      square = cgpc_reply_set_data(reply, c_loc(mine), c_sizeof(mine))
   end function

   integer(c_int) function add(request, child, reply, arg) bind(C)
      type(c_ptr), value :: request, reply, arg
      type(cgpc_child), intent(in) :: child
      integer(c_int8_t), pointer :: own(:), more(:)
      integer(c_int64_t), target :: total
      type(c_ptr) :: data
      integer(c_size_t) :: length
      call must(cgpc_reply_data(reply, data, length))
      call c_f_pointer(data, own, [length])
      call c_f_pointer(child%data, more, [child%data_len])
      ! The bytes have no alignment: transfer copies them.
      total = transfer(own, total) + transfer(more, total)
      add = cgpc_reply_set_data(reply, c_loc(total), c_sizeof(total))
   end function
end module

program sum_of_squares
   use functions
   implicit none
   type(c_ptr) :: context
   type(cgpc_call_args) :: args
   integer(c_int32_t) :: id, count
   integer(c_int64_t), target :: total
   integer(c_int64_t) :: expected, at
   integer(c_size_t) :: length
   call must(cgpc_call_args_init(args, c_sizeof(args)))
   call must(cgpc_context_new(context))
   call must(cgpc_register(context, 'square'//c_null_char, c_funloc(square), c_null_ptr, c_null_ptr, args%func))
   call must(cgpc_register_callback(context, 'add'//c_null_char, c_funloc(add), c_null_ptr, c_null_ptr, args%callback))
   call must(cgpc_start_launched(context, c_null_ptr))
   call must(cgpc_id(context, id))
   call must(cgpc_count(context, count))
   if (id == 0) then
      args%id_count = count
      length = c_sizeof(total)
      call must(cgpc_call_run_into(context, args, c_null_ptr, c_null_ptr, c_loc(total), length, c_null_ptr))
      expected = 0
      do at = 0, count - 1
         expected = expected + at**2
      end do
      print '(a, i0, a, i0)', 'the sum of ', count, ' squares is ', total
      if (total /= expected) stop 1
   else
      call must(cgpc_serve(context))
   end if
   call must(cgpc_finalize(context, 1000000_c_int64_t))
end program
