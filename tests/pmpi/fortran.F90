! The collectives from Fortran, in place and not, through one of its three interfaces (MPIF_H, USE_MPI, USE_F08).
program fortran
#ifdef USE_F08
  use mpi_f08
#endif
#ifdef USE_MPI
  use mpi
#endif
  use iso_c_binding
  implicit none
#ifdef MPIF_H
  include 'mpif.h'
#endif
#ifdef USE_F08
  type(MPI_Comm) :: comm
#else
  integer :: comm
#endif
  integer, parameter :: n = 1000
  integer :: rank, nranks, ierr, i, ranks, isum(n), iin(n)
  integer, allocatable :: all_in(:), part(:), counts(:)
  double precision :: din(n), dsum(n)
  real(8) :: r8(n)
  real :: rmax
  logical :: lin, lany

  call MPI_Init(ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, nranks, ierr)
  ranks = nranks * (nranks + 1) / 2

  do i = 1, n
    iin(i) = (rank + 1) * i
    din(i) = dble(rank + 1) / 2 * i
    r8(i) = din(i)
    isum(i) = iin(i)
  end do
  call MPI_Allreduce(MPI_IN_PLACE, isum, n, MPI_INTEGER, MPI_SUM, comm, ierr)
  call check(all(isum == (/(ranks * i, i = 1, n)/)), 'integer in place')
  isum = 0
  call MPI_Allreduce(iin, isum, n, MPI_INTEGER, MPI_SUM, comm, ierr)
  call check(all(isum == (/(ranks * i, i = 1, n)/)), 'integer')
  call MPI_Allreduce(din, dsum, n, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
  call check(all(dsum == (/(dble(ranks) / 2 * i, i = 1, n)/)), 'double precision')
  call MPI_Allreduce(MPI_IN_PLACE, r8, n, MPI_REAL8, MPI_SUM, comm, ierr)
  call check(all(r8 == dsum), 'real8 in place')
  rmax = real(rank)
  call MPI_Allreduce(MPI_IN_PLACE, rmax, 1, MPI_REAL, MPI_MAX, comm, ierr)
  call check(rmax == real(nranks - 1), 'real in place')
  lin = rank == 1
  call MPI_Allreduce(lin, lany, 1, MPI_LOGICAL, MPI_LOR, comm, ierr)
  call check(lany, 'logical')

  call others()
  call shared()

  if (rank == 0) print '(a)', 'expect taken 17', 'expect passed on type not supported 1'
  call MPI_Comm_free(comm, ierr)
  call MPI_Finalize(ierr)

contains

  ! Rank r's element j is (r + 1) * j.
  subroutine others()
    integer :: r, j
    allocate (all_in(n * nranks), part(n * nranks), counts(nranks))
    counts = n
    all_in = (/(((r + 1) * j, j = 1, n), r = 0, nranks - 1)/)

    part = 0
    call MPI_Allgather(iin, n, MPI_INTEGER, part, n, MPI_INTEGER, comm, ierr)
    call check(all(part == all_in), 'allgather')
    part = 0
    part(rank * n + 1:rank * n + n) = iin
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, part, n, MPI_INTEGER, comm, ierr)
    call check(all(part == all_in), 'allgather in place')

    isum = 0
    call MPI_Reduce_scatter_block(all_in, isum, n, MPI_INTEGER, MPI_SUM, comm, ierr)
    call check(all(isum == nranks * all_in(rank * n + 1:rank * n + n)), 'reduce-scatter block')
    part = all_in
    call MPI_Reduce_scatter_block(MPI_IN_PLACE, part, n, MPI_INTEGER, MPI_SUM, comm, ierr)
    call check(all(part(1:n) == nranks * all_in(rank * n + 1:rank * n + n)), 'reduce-scatter block in place')
    isum = 0
    call MPI_Reduce_scatter(all_in, isum, counts, MPI_INTEGER, MPI_MAX, comm, ierr)
    call check(all(isum == all_in(rank * n + 1:rank * n + n)), 'reduce-scatter')
    part = all_in
    call MPI_Reduce_scatter(MPI_IN_PLACE, part, counts, MPI_INTEGER, MPI_MAX, comm, ierr)
    call check(all(part(1:n) == all_in(rank * n + 1:rank * n + n)), 'reduce-scatter in place')

    isum = 0
    if (rank == 1) isum = iin
    call MPI_Bcast(isum, n, MPI_INTEGER, 1, comm, ierr)
    call check(all(isum == (/(2 * j, j = 1, n)/)), 'broadcast')
    lany = rank == 1
    call MPI_Bcast(lany, 1, MPI_LOGICAL, 1, comm, ierr)
    call check(lany, 'broadcast of a logical')

    isum = 0
    call MPI_Reduce(iin, isum, n, MPI_INTEGER, MPI_SUM, 1, comm, ierr)
    call check(rank /= 1 .or. all(isum == (/(ranks * j, j = 1, n)/)), 'reduce')
    isum = iin
    if (rank == 1) then
      call MPI_Reduce(MPI_IN_PLACE, isum, n, MPI_INTEGER, MPI_SUM, 1, comm, ierr)
    else
      call MPI_Reduce(iin, isum, n, MPI_INTEGER, MPI_SUM, 1, comm, ierr)
    end if
    call check(rank /= 1 .or. all(isum == (/(ranks * j, j = 1, n)/)), 'reduce in place')

    call MPI_Barrier(comm, ierr)
    call check(ierr == MPI_SUCCESS, 'barrier')
  end subroutine

  ! A block is MPI's to free where it was MPI's to give, by whatever names the bindings call these.
  subroutine shared()
    integer, pointer :: block(:)
    integer(kind=MPI_ADDRESS_KIND), parameter :: bytes = 4 * n
    integer :: j
#ifdef USE_F08
    type(c_ptr) :: at
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, at, ierr)
    call c_f_pointer(at, block, (/n/))
#else
    integer(kind=MPI_ADDRESS_KIND) :: at
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, at, ierr)
    call c_f_pointer(transfer(at, c_null_ptr), block, (/n/))
#endif
    block = iin
    call MPI_Allreduce(MPI_IN_PLACE, block, n, MPI_INTEGER, MPI_SUM, comm, ierr)
    call check(all(block == (/(ranks * j, j = 1, n)/)), 'allocated')
    call MPI_Free_mem(block, ierr)
    call check(ierr == MPI_SUCCESS, 'freed')
  end subroutine

  subroutine check(so, what)
    logical, intent(in) :: so
    character(*), intent(in) :: what
    if (.not. so) then
      print *, 'rank', rank, 'wrong: ', what
      call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    end if
  end subroutine
end program
