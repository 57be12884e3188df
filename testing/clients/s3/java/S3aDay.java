import java.net.URI;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;

/** Everyday work by Hadoop's S3A, which uses the AWS SDK for Java 2: ADDRESS, a folder to store, an empty folder to bring it back to. */
public class S3aDay {
  private static final String BUCKET = "s3a://hadoop/";

  public static void main(String[] args) throws Exception {
    Configuration conf = new Configuration();
    conf.set("fs.s3a.endpoint", "http://" + args[0]);
    conf.set("fs.s3a.endpoint.region", System.getenv("AWS_REGION"));
    conf.set("fs.s3a.access.key", System.getenv("AWS_ACCESS_KEY_ID"));
    conf.set("fs.s3a.secret.key", System.getenv("AWS_SECRET_ACCESS_KEY"));
    conf.set("fs.s3a.path.style.access", "true");
    conf.set("fs.s3a.multipart.size", "5M");
    conf.set("fs.s3a.multipart.threshold", "6M");
    conf.set("fs.s3a.paging.maximum", "2");
    conf.set("fs.s3a.attempts.maximum", "2");
    try (FileSystem s3 = FileSystem.newInstance(URI.create(BUCKET), conf)) {
      day(s3, new Path(args[1]), new Path(args[2]));
    }
  }

  private static void day(FileSystem s3, Path files, Path back) throws Exception {
    Path all = new Path(BUCKET, "all");
    s3.copyFromLocalFile(files, all);
    int count = 0;
    for (RemoteIterator<LocatedFileStatus> found = s3.listFiles(all, true); found.hasNext(); found.next()) count++;
    demand(count == 5, "files: " + count);
    for (FileStatus file : s3.listStatus(all)) s3.copyToLocalFile(false, file.getPath(), back, true);

    // A stream in parts, a read in the middle of it, a rename (a copy and a deletion).
    Path part = new Path(BUCKET, "table/_temporary/part-0");
    byte[] megabyte = new byte[1024 * 1024];
    try (FSDataOutputStream out = s3.create(part, true)) {
      for (int i = 0; i < 12; i++) {
        java.util.Arrays.fill(megabyte, (byte) i);
        out.write(megabyte);
      }
    }
    Path table = new Path(BUCKET, "table/part-0");
    demand(s3.rename(part, table), "renamed");
    demand(!s3.exists(part), "it is not at its former name");
    FileStatus status = s3.getFileStatus(table);
    demand(status.getLen() == 12L * megabyte.length, "length: " + status.getLen());
    try (FSDataInputStream in = s3.open(table)) {
      byte[] three = new byte[3];
      in.readFully(5L * megabyte.length - 1, three);
      demand(three[0] == 4 && three[1] == 5 && three[2] == 5, "bytes at the border of two parts");
    }

    demand(s3.mkdirs(new Path(BUCKET, "empty/folder")), "folder");
    demand(s3.listStatus(new Path(BUCKET, "empty")).length == 1, "the folder is listed");
    for (FileStatus entry : s3.listStatus(new Path(BUCKET))) demand(s3.delete(entry.getPath(), true), "deleted " + entry.getPath());
    demand(s3.listStatus(new Path(BUCKET)).length == 0, "nothing is left");
  }

  private static void demand(boolean holds, String what) {
    if (!holds) throw new IllegalStateException(what);
  }
}
