import java.net.URI;
import java.net.http.*;
import java.security.cert.X509Certificate;
import java.util.Arrays;
import javax.net.ssl.*;

/** Fetch VERSION URL... [-- VERSION URL...]: fetches files by HTTP/VERSION; prints protocol, status and length. */
public class Fetch {
    static void fetchAll(SSLContext context, String wanted, String[] urls) throws Exception {
        HttpClient.Version version = wanted.equals("2") ? HttpClient.Version.HTTP_2 : HttpClient.Version.HTTP_1_1;
        HttpClient client = HttpClient.newBuilder().sslContext(context).version(version).build();
        for (String url : urls) {
            HttpResponse<byte[]> got = client.send(HttpRequest.newBuilder(URI.create(url)).build(),
                                                   HttpResponse.BodyHandlers.ofByteArray());
            System.out.println(got.version() + " " + got.statusCode() + " " + got.body().length);
        }
        System.out.println("--");
    }

    public static void main(String[] words) throws Exception {
        TrustManager all = new X509ExtendedTrustManager() {
            public void checkClientTrusted(X509Certificate[] c, String a, java.net.Socket s) {}
            public void checkServerTrusted(X509Certificate[] c, String a, java.net.Socket s) {}
            public void checkClientTrusted(X509Certificate[] c, String a, SSLEngine e) {}
            public void checkServerTrusted(X509Certificate[] c, String a, SSLEngine e) {}
            public void checkClientTrusted(X509Certificate[] c, String a) {}
            public void checkServerTrusted(X509Certificate[] c, String a) {}
            public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
        };
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, new TrustManager[] {all}, null);
        int start = 0;
        for (int i = 0; i <= words.length; i++)
            if (i == words.length || words[i].equals("--")) {
                fetchAll(context, words[start], Arrays.copyOfRange(words, start + 1, i));
                start = i + 1;
            }
    }
}
